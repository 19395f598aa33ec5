"""Roles that may read the lakes and nothing else (FH-14): what has to be granted, and granting it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from asyncpg import Connection

from reactor.errors import StateForbids
from reactor.state.database import border, connect


def grants(role: str, lakes: Collection[str], database: str) -> Sequence[str]:
    """What lets a role read the catalogs of these lakes, and those tables that DuckLake adds to them later. Nothing of Reactor's own state."""
    whom = _identifier(role)
    statements = [f"GRANT CONNECT ON DATABASE {_identifier(database)} TO {whom}"]
    for lake in lakes:
        schema = _identifier(f"lake_{lake}")
        statements += [
            f"GRANT USAGE ON SCHEMA {schema} TO {whom}",
            f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {whom}",
            f"ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT ON TABLES TO {whom}",
        ]
    return statements


async def reader(url: str, role: str, lakes: Collection[str], *, granting: bool) -> tuple[Sequence[str], Sequence[str]]:
    """The statements, which are carried out if `granting`, and the lakes that are not there yet and so are left out.

    Raises `StateForbids` if there is no such role, or it is one that may write anyway; `UsageError`, `Outage`.
    """
    with border():
        connection = await connect(url)
        try:
            await _refuse_unfit(connection, role)
            there = [lake for lake in lakes if await connection.fetchval("select to_regnamespace($1)", _identifier(f"lake_{lake}")) is not None]
            statements = grants(role, there, await connection.fetchval("select current_database()"))
            if granting:
                async with connection.transaction():
                    for statement in statements:
                        await connection.execute(statement)
        finally:
            await connection.close()
    return statements, [lake for lake in lakes if lake not in there]


async def _refuse_unfit(connection: Connection, role: str) -> None:
    row = await connection.fetchrow("select rolsuper, pg_has_role(oid, current_user, 'member') as ours from pg_roles where rolname = $1", role)
    if row is None:
        raise StateForbids(f"PostgreSQL has no role {role!r}", hint=f"make it first: CREATE ROLE {_identifier(role)} LOGIN PASSWORD '…'")
    if row["rolsuper"] or row["ours"]:
        raise StateForbids(f"role {role!r} may write whatever is granted: it is a superuser, or a member of the service's own role",
                           hint="name a role that is only for readers")


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
