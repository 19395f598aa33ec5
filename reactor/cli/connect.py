"""`reactor connect`: how the lakes are read without Reactor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from reactor.cli.call import Call, example, verb, verbs
from reactor.lake.connecting import CATALOG_VERSION, READERS, Reader, reader_of
from reactor.wiring import lake_settings, state_url

app = verbs()

BI_URLS: Mapping[str, str] = {"JDBC (DBeaver, Metabase, Tableau)": "jdbc:duckdb:", "SQLAlchemy (Superset)": "duckdb:///:memory:"}


@app.command(name="connect", epilog=example("reactor connect --user analysts"))
@verb
def connect(
    call: Call,
    user: Annotated[str | None, typer.Option(metavar="ROLE", help="A PostgreSQL role that may only read: reactor migrate --reader ROLE.")] = None,
) -> None:
    """Print how a plain DuckDB, Python and BI tools read the lakes. Nothing is asked, and no secret is printed.

    Readers: DuckDB 1.5.2 or a later 1.5, with the extension ducklake that it installs (catalogs of DuckLake's version 1.0). Reactor never migrates
    a catalog by itself: reactor maintain --migrate-catalog.
    """
    opened = call.open()
    settings = lake_settings(opened.project, state_url(opened.project))
    reader = reader_of(settings.postgres_url, settings.lakes, user)
    password = _password(reader, user, opened.loaded.origins["state.url"])
    data = {
        "readers": READERS, "catalog_version": CATALOG_VERSION, "password": password, "setup": reader.setup,
        "lakes": [{"lake": lake, "database": f"lake_{lake}", "data_path": settings.lakes[lake].location, "attach": attach} for lake, attach in reader.lakes.items()],
        "duckdb": reader.statements, "python": reader.python, "bi": {"urls": BI_URLS, "init_sql": reader.statements},
    }
    notes = [f"-- {READERS} (catalog version {CATALOG_VERSION})", *([f"-- {password}"] if password else [])]
    notes += [f"-- the files of lake_{lake}: {settings.lakes[lake].location}" for lake in reader.lakes]
    call.answer(data, lambda: "\n".join(_lines(reader, notes)))


def _password(reader: Reader, user: str | None, origin: str) -> str | None:
    """Where the password comes from, if there is one."""
    if not reader.password:
        return None
    whose = f"of role {user}" if user else f"in [state] url ({origin})"
    return f"the password is that {whose}, and is not printed: put it into PGPASSWORD, or into ~/.pgpass"


def _lines(reader: Reader, notes: Sequence[str]) -> Sequence[str]:
    """For eyes and for copying: every line that is no statement is a comment of its language."""
    return [
        "-- DuckDB", *notes, *reader.statements, "",
        "# Python (pip install duckdb)", *(f"#{note.removeprefix('--')}" for note in notes), *reader.python, "",
        "-- BI tools with a driver of DuckDB: the address, and what to run first in each session (init SQL)",
        *(f"-- {kind}: {url}" for kind, url in BI_URLS.items()), *reader.statements,
    ]
