"""OP-8: replicas of the version before keep running, under load, while the database is migrated; then they are too old to start.

Their SQL is that of `version_before/`, word for word; `Before` gives it what their Python gave it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import pytest

from reactor.domain.runs import PartitionCounts
from reactor.domain.spans import PositionClaim, PositionKey, SourcePartition, Token
from reactor.errors import Conflict, UsageError
from reactor.ports import NewRun
from reactor.state import PostgresState, migrations
from reactor.state.database import Identity, migrated
from reactor.state.migrations import Migration, shipped
from reactor.state.positions import key_of
from reactor.state.queries import named
from reactor.state.runs import claims_json
from tests.parts.waiting import until
from tests.state.making import ASSET, KEY, Catalog, append, claim, mark, run_committed

pytestmark = pytest.mark.anyio
FOLDER = Path(__file__).parent / "version_before"
QUERIES = {name: text.replace("{catalog}", "lake_main") for name, text in named((FOLDER / "queries.sql").read_text()).items()}
THEN = [Migration(n, file.stem[5:], file.read_text()) for n, file in enumerate(sorted((FOLDER / "migrations").glob("*.sql")), start=1)]
WRITERS, COMMITS_BETWEEN, WAIT_SECONDS = 4, 10, 120.0
REPEATED = ("40001", "40P01", "23505", "55P03")
NEXT = Migration(len(shipped()) + 1, "add_notes", "alter table reactor.run add column note text; alter table reactor.outbox add column note text; "
                 "alter table reactor.position add column note text; create index run_note on reactor.run (note)")


class Before:
    """A replica of the version before, as far as the state sees it: its statements, and what it gives them."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def rows(self, name: str, *arguments: object) -> list[asyncpg.Record]:
        """A statement of then."""
        return list(await self._pool.fetch(QUERIES[name], *arguments))

    async def insert_run(self, run: NewRun) -> None:
        """With its claims."""
        await self.rows("insert_run", {
            "id": str(run.run_id), "workspace": "prod", "replica": "then", "lake": "main", "script": run.script.path, "script_version": "1",
            "consumer": run.consumer, "asset": ASSET, "strategy": "append", "partition": "", "reason": "kafka", "attempt": 1,
            "root_run_id": str(run.run_id), "actor": "", "cascade": True, "fired_at": run.trigger.fired_at, "trigger": run.trigger.to_json(),
            "claims": claims_json(run), "compiled_sql": "", "timings": {}, "drift": {}})

    async def state_of(self, run: NewRun) -> str:
        """How it ended."""
        (row,) = await self.rows("verdict", run.run_id, 0, "main")
        return str(row["state"])

    async def started(self, *keys: PositionKey) -> dict[PositionKey, Token]:
        """New positions, with their tokens."""
        await self.rows("insert_positions", [
            {"consumer": k.consumer, "source": k.source_partition.source, "source_partition": k.source_partition.number, "floor": 0,
             "routing": "routing", "started_from": "earliest", "topic_id": "cluster/topic", "table_uuid": None} for k in keys])
        return {key_of(row): Token(row["last_run"]) for row in await self.rows("list_positions", None)}

    async def outbox(self) -> Sequence[asyncpg.Record]:
        """Number it and read it."""
        await self.rows("number", "prod")
        return await self.rows("read_outbox", "prod", 0, 100_000)


@pytest.fixture
async def before(database: str) -> AsyncIterator[Before]:
    """A replica of the version before, on a database of that version."""
    connection = await asyncpg.connect(database)
    await connection.execute("create schema reactor; create table reactor.migration ("
                             "version int primary key, name text not null, applied_at timestamptz not null default clock_timestamp())")
    for migration in THEN:
        await connection.execute(migration.sql)
        await connection.execute("insert into reactor.migration (version, name) values ($1, $2)", migration.version, migration.name)
    await connection.execute((FOLDER / "commit.sql").read_text())
    await connection.fetch(QUERIES["fix_installation"], "local", "prod")
    await connection.close()
    async with asyncpg.create_pool(database, min_size=1, max_size=5, init=with_json) as pool:
        yield Before(pool)


async def with_json(connection: asyncpg.Connection) -> None:
    await connection.set_type_codec("jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads)


async def opened_then(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a replica of the version before starts."""
    with monkeypatch.context() as then:
        then.setattr(migrations, "shipped", lambda: THEN)
        await (await PostgresState.open(database, installation="local", workspace="prod", migrating=False)).close()


@dataclass
class Writer:
    """One consumer of one source partition, which commits as fast as it can. `commits`: how many it has seen succeed."""

    state: Before
    catalog: Catalog
    session: asyncpg.Connection
    key: PositionKey
    token: Token
    commits: int = 0
    refusals: int = 0
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        while not self.stopping.is_set():
            run = append([PositionClaim(self.key, self.token, self.commits + 1, {})], f"slice {self.key.source_partition.number}")
            await self.state.insert_run(run)
            if self.commits % 3 == 2:
                await self.state.rows("complete", run.run_id, [[0, 0]])
            else:
                await self._commit(run)
            self.token, self.commits = Token(run.run_id), self.commits + 1
            await self.state.rows("heartbeat", "then")
            await self.state.outbox()

    async def _commit(self, run: NewRun) -> None:
        """As DuckLake does: once more in a new transaction when somebody was first."""
        while True:
            try:
                await self.catalog.commit(mark(run), session=self.session)
            except asyncpg.PostgresError as error:
                if error.sqlstate not in REPEATED or await self.state.state_of(run) != "running":
                    raise
                self.refusals += 1
            else:
                assert await self.state.state_of(run) == "completed"
                return


async def writers_of(state: Before, catalog: Catalog) -> Sequence[Writer]:
    keys = [PositionKey(KEY.consumer, SourcePartition(KEY.source_partition.source, str(n))) for n in range(WRITERS)]
    tokens = await state.started(*keys)
    return [Writer(state, catalog, await catalog.session(), key, tokens[key]) for key in keys]


async def test_every_statement_of_then_is_understood_after_the_migration(before: Before, database: str) -> None:  # noqa: ARG001 - it makes the database
    await migrated(database, Identity("local", "prod", "new"))
    async with Catalog.made(database) as catalog:
        for text in QUERIES.values():
            await catalog.connection.prepare(text)


async def test_replicas_of_then_go_on_while_it_is_migrated(before: Before, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Catalog.made(database) as catalog:
        await before.rows("watch_lake", "main", False)
        writers = await writers_of(before, catalog)
        async with asyncio.TaskGroup() as tasks:
            for writer in writers:
                tasks.create_task(writer.run())

            async def each_has_committed() -> None:
                wanted = [writer.commits + COMMITS_BETWEEN for writer in writers]

                async def have() -> bool:
                    return all(writer.commits >= n for writer, n in zip(writers, wanted, strict=True))

                await until(have, f"each writer has committed {COMMITS_BETWEEN} times more", WAIT_SECONDS)

            await each_has_committed()
            done = await migrated(database, Identity("local", "prod", "new"))
            assert [m.version for m in done] == [m.version for m in shipped()[len(THEN):]]
            await each_has_committed()
            with monkeypatch.context() as later:
                later.setattr(migrations, "shipped", lambda: [*shipped(), NEXT])
                for _ in range(3):  # as many replicas of the new version start, the functions are made anew each time
                    await migrated(database, Identity("local", "prod", "newer"))
                    await each_has_committed()
            for writer in writers:
                writer.stopping.set()
        published = sum(writer.commits - writer.commits // 3 for writer in writers)
        stored = await before.rows("list_positions", None)
        assert {key_of(row): row["floor"] for row in stored} == {writer.key: writer.commits for writer in writers}
        assert await catalog.rows() == published
        assert len({row["event_id"] for row in await before.outbox() if row["changed"]}) == published
        with pytest.raises(UsageError, match="this version of Reactor knows"):
            await opened_then(database, monkeypatch)


async def test_the_new_version_goes_on_where_the_one_before_stopped(before: Before, database: str) -> None:
    async with Catalog.made(database) as catalog:
        await before.rows("watch_lake", "main", False)
        old = append([claim((await before.started(KEY))[KEY], 1)], "a")
        await before.insert_run(old)
        await catalog.commit(mark(old))
        now = await PostgresState.open(database, installation="local", workspace="prod")
        await run_committed(now, catalog, append([claim(Token(old.run_id), 2)], "a"))
        late = append([claim(Token(old.run_id), 2)], "a")
        await now.insert_run(late)
        with pytest.raises(Conflict):  # what the one before still believes is not stored any more
            await now.complete(late.run_id, [PartitionCounts(0, 0)])
        assert (await now.load([KEY]))[KEY].floor == 2
        await now.close()
