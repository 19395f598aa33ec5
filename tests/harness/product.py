"""One installation: a database, a lake, a project, and the replicas that serve it."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg

from reactor.domain.project import Checked
from reactor.domain.spans import SourcePartition
from reactor.errors import Outage
from reactor.project import open_project
from reactor.testing import ScriptedLogs
from reactor.wiring import Instead
from tests.harness.ground import Ground
from tests.harness.other_tool import OtherTool
from tests.harness.replica import Replica
from tests.harness.streams import ScriptedStreams, Streams
from tests.parts.waiting import until

REST_SECONDS = 60.0

SETTINGS = """
[state]
url = "{url}"

[lakes.main]
data_path = "lake/main"
watch_external = {watch_external}

[kafka.main]
{kafka}

[resources]
memory_limit_bytes = 400_000_000
threads = 1
"""


@dataclass(frozen=True, slots=True)
class Run:
    """A row of `reactor.run`, as far as tests look at it."""

    run_id: str
    script: str
    partition: str
    state: str
    attempt: int
    reason: str
    error: str
    snapshot_id: int | None
    replica: str
    trigger: Mapping[str, Any]
    drift: Mapping[str, Sequence[str]]


class Kept(logging.Handler):
    """What Reactor logs, from now until it is closed."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []
        logging.getLogger("reactor").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def close(self) -> None:
        logging.getLogger("reactor").removeHandler(self)
        super().close()


class Product:
    """Scripts go in by `put`, replicas start, and what became of it is looked at from outside."""

    def __init__(self, folder: Path, url: str, state: asyncpg.Pool, streams: Streams, *, watch_external: bool) -> None:
        self.folder, self.url, self.streams = folder, url, streams
        self.lake_folder = folder / "lake" / "main"
        self.replicas: list[Replica] = []
        self._state = state
        self._tool: OtherTool | None = None
        self.log = Kept()
        text = SETTINGS.format(url=url, watch_external=str(watch_external).lower(), kafka=streams.settings)
        (folder / "reactor.toml").write_text(text)
        self.opened = open_project(folder, flags={}, environ={})

    @property
    def logs(self) -> ScriptedLogs:
        """Where its streams are scripted."""
        assert isinstance(self.streams, ScriptedStreams)
        return self.streams.logs

    # -- scripts

    def put(self, files: Mapping[str, str]) -> Checked:
        """Scripts by path, added to those that are there; they run from the next start or reload on. What `check` says."""
        for path, text in files.items():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_text(text)
        self.opened = open_project(self.folder, flags={}, environ={})
        return self.opened.checked

    # -- lives

    def replica(self) -> Replica:
        """A new one, not started."""
        made = Replica(self.opened.project, Instead(source=self.streams.reader))
        self.replicas.append(made)
        return made

    async def start(self) -> Replica:
        """A new one that serves."""
        made = self.replica()
        await made.start()
        return made

    async def reload(self) -> None:
        """All replicas run what was put."""
        for replica in self.living:
            await replica.reload(self.opened.project)

    async def stop(self) -> None:
        """All replicas, in order."""
        for replica in self.living:
            await replica.stop()

    async def kill(self) -> None:
        """All replicas, without warning."""
        dying = self.living
        for replica in dying:
            replica.gates.kill()
        await self._end_sessions()
        for replica in dying:
            await replica.die()

    async def _end_sessions(self) -> None:
        ours = "datname = current_database() AND application_name = 'reactor'"
        await self._state.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {ours}")

    async def time_passes(self) -> None:
        """The leases of the dead run out."""
        await self._state.execute("UPDATE reactor.lease SET expires_at = clock_timestamp()")

    @property
    def living(self) -> list[Replica]:
        """The replicas that serve."""
        return [replica for replica in self.replicas if replica.lives]

    async def settle(self) -> None:
        """The table at rest: nothing is due, nothing runs, every event is handled, all stand at the end of what they read."""
        await until(self._at_rest, "the table is at rest", REST_SECONDS)

    async def _at_rest(self) -> bool:
        for replica in self.replicas:
            if replica is self.replicas[-1] or replica.lives:
                replica.raise_if_ended()
        numbers = [await replica.still() for replica in self.living]
        if None in numbers:
            return False
        behind: list[set[object]] = []
        for replica, number in zip(self.living, numbers, strict=True):
            try:
                ends = await replica.ends(self._partitions())
            except Outage:
                return False
            still, left = await replica.behind(ends)
            if still != number:
                return False
            replica.settle_floors()
            behind.append(set(left))
        return not set.intersection(*behind) if behind else True

    def _partitions(self) -> Mapping[str, list[SourcePartition]]:
        sources = {edge.uri for script in self.opened.project.scripts for edge in script.streams}
        return {source: list(self.streams.partitions(source.rpartition("/")[2])) for source in sources}

    # -- by hand

    async def run_by_hand(self, script: str, partition: str = "") -> Run:
        """Ask for a run, and wait until it has ended."""
        (replica, *_) = self.living
        _, event_id = await replica.service.state.request_run(script=script, partition=partition, actor="test")
        replica.hint()
        ended: list[Run] = []

        async def over() -> bool:
            replica.raise_if_ended()
            ended[:] = [run for run in await self.runs() if run.state in {"completed", "failed"} and event_id in _event_ids(run)]
            return bool(ended)

        await until(over, f"the run of {script} {partition}".strip() + " has ended")
        return ended[-1]

    @asynccontextmanager
    async def postgres_away(self) -> AsyncIterator[None]:
        """Replicas are thrown out of the database, and nobody gets in."""
        parts = urlsplit(self.url)
        name = parts.path.strip("/")
        connection = await asyncpg.connect(parts._replace(path="/postgres").geturl())
        try:
            await connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            await self._end_sessions()
            yield
        finally:
            await connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
            await connection.close()

    def refuse_writes(self, *, refused: bool) -> None:
        """Nothing of the schema can be written: a file stands where its folder was (root would write into a read-only one)."""
        folder = self.lake_folder / "main"
        away = self.lake_folder / "away"
        if refused:
            folder.mkdir(parents=True, exist_ok=True)
            folder.rename(away)
            folder.touch()
        else:
            folder.unlink()
            away.rename(folder)

    # -- facts

    @property
    def tool(self) -> OtherTool:
        """Plain DuckDB on the lake."""
        if self._tool is None:
            self.lake_folder.mkdir(parents=True, exist_ok=True)
            self._tool = OtherTool(self.url, self.lake_folder)
        return self._tool

    async def fetch(self, sql: str, *arguments: object) -> list[asyncpg.Record]:
        """Rows of the state."""
        return list(await self._state.fetch(sql, *arguments))

    async def runs(self, script: str | None = None) -> list[Run]:
        """In the order in which they were started."""
        rows = await self.fetch("SELECT * FROM reactor.run WHERE $1::text IS NULL OR script = $1 ORDER BY id", script)
        return [
            Run(str(r["id"]), r["script"], r["partition"], r["state"], r["attempt"], r["reason"], r["error"] or "", r["snapshot_id"], r["replica"],
                json.loads(r["trigger"]), json.loads(r["drift"]))
            for r in rows
        ]  # fmt: skip

    async def positions(self, consumer: str) -> dict[str, int]:
        """`topic/number` → the next offset that is not settled for every stream."""
        rows = await self.fetch(
            "SELECT source, source_partition, least(floor, (SELECT min(next) FROM reactor.fence f WHERE "
            "(f.consumer, f.source, f.source_partition) = (p.consumer, p.source, p.source_partition))) AS low "
            "FROM reactor.position p WHERE consumer = $1 AND source LIKE 'kafka://%'", consumer)
        return {f"{r['source'].rpartition('/')[2]}/{r['source_partition']}": r["low"] for r in rows}

    async def updates(self, asset: str) -> list[Mapping[str, Any]]:
        """Asset-updated events, in the order of the outbox."""
        rows = await self.fetch('SELECT event FROM reactor.outbox WHERE asset = $1 AND changed ORDER BY "offset", id', asset)
        return [json.loads(r["event"]) for r in rows]

    async def quarantined(self, asset: str) -> list[dict[str, str | None]]:
        """Rows of the lake's quarantine, cells as text, bytes as hexadecimal digits."""
        if not await self.tool.has("_reactor_quarantine"):
            return []
        names = ("reason", "column", "source", "source_partition", "offset", "key", "value", "headers")
        rows = await self.tool.rows(
            'SELECT reason, "column", source, source_partition, "offset", lower(hex(key)), lower(hex(value)), '
            "to_json(list_transform(headers, h -> [h.name, lower(hex(h.value))])) "
            f"FROM _reactor_quarantine WHERE asset = '{asset}' ORDER BY \"offset\"")
        return [dict(zip(names, row, strict=True)) for row in rows]

    def said(self, event: str, asset: str) -> list[str]:
        """What the log says of an asset (of all products that run now)."""
        return [r.getMessage() for r in self.log.records if getattr(r, "event", "") == event and getattr(r, "asset", "") == asset]

    async def close(self) -> None:
        """End everything."""
        self.log.close()
        await self.kill()
        if self._tool is not None:
            self._tool.close()


@asynccontextmanager
async def opened_product(ground: Ground, *, streams: Streams | None = None, watch_external: bool = False) -> AsyncIterator[Product]:
    """A product without scripts and replicas."""
    async with AsyncExitStack() as stack:
        project = ground.project()
        folder, url = await asyncio.to_thread(project.__enter__)
        stack.push_async_callback(asyncio.to_thread, project.__exit__, None, None, None)
        state = await stack.enter_async_context(asyncpg.create_pool(url, min_size=1, max_size=2, server_settings={"application_name": "test"}))
        product = Product(folder, url, state, streams or ScriptedStreams(), watch_external=watch_external)
        stack.push_async_callback(product.close)
        yield product


def _event_ids(run: Run) -> set[str]:
    return {event["event_id"] for event in run.trigger["events"]}
