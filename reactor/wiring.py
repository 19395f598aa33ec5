"""The composition root: the only module that knows every room. Settings and scripts go in, a `Service` comes out.

    Settings ─▶ state (PostgreSQL) ─▶ lakes attached ─▶ their commit triggers ─▶ sources, queues, publishers ─▶ Service

Order matters: the lakes' catalogs must exist before their trigger can be made, and the trigger must be there before anything is written.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final
from uuid import UUID

from anyio import to_thread

from connectors.kafka.client import KafkaConnection
from connectors.kafka.logs import Logs
from connectors.kafka.source import KafkaSource
from connectors.publishers.kafka import Guarantee, KafkaPublisher
from reactor import __version__
from reactor.core.effects import StartRun
from reactor.core.engine import Engine
from reactor.core.lanes import Limits
from reactor.core.reading import Producers
from reactor.domain.assets import LakeTable
from reactor.domain.scripts import BatchColumn, JsonPath, Script
from reactor.domain.spans import Consumer, SourcePartition, inbox_of, outbox_of
from reactor.embedded import running
from reactor.errors import Outage, StateForbids, UsageError
from reactor.lake.decoding.kept import keepable
from reactor.lake.ducklake import DuckLake
from reactor.lake.session import InstanceSettings, LakeSettings
from reactor.lake.split import ArrowSplitter
from reactor.opening import opened_state, state_url
from reactor.ports import Epoch, Lake, LogBounds, Publisher, Source
from reactor.project import Project
from reactor.runtime.committing import Committer, ManagedWork
from reactor.runtime.executor import Executor, Work
from reactor.runtime.graphs import Graph, Graphs
from reactor.runtime.hands import ExternalFeeding, Feeding, QueueFeeding
from reactor.runtime.identities import refused_identities
from reactor.runtime.intake import SourceIntake
from reactor.runtime.loop import Loop
from reactor.runtime.outages import until_it_answers
from reactor.runtime.programs import Programs, ProgramWork
from reactor.runtime.publishing import Publishing, wanted_by
from reactor.runtime.queues import QueueSource
from reactor.runtime.service import Service
from reactor.runtime.starts import PositionStarts
from reactor.state.postgres import PostgresState
from reactor.telemetry import Telemetry

__all__ = ["Instead", "Parts", "Project", "WallClock", "absent_topics", "duck_lake", "inbox_lease", "kafka_connection", "lake_settings", "log_bounds",
           "opened_service", "opened_state", "state_url"]  # fmt: skip

logger = logging.getLogger(__name__)


class WallClock:
    """`ports.Clock`: the machine's time, which never goes back here."""

    def __init__(self) -> None:
        self._last = 0.0

    def now(self) -> float:
        """POSIX seconds."""
        self._last = max(self._last, time.time())
        return self._last


def kafka_connection(project: Project, cluster: str) -> KafkaConnection:
    """How a configured cluster is reached. Raises `Outage` like `state_url`."""
    k = project.settings.kafka[cluster]
    servers: str | None = k.bootstrap_servers
    if k.embedded:
        servers = running.bootstrap_servers(project.private_folder)
        if servers is None:
            raise Outage(
                "the embedded broker of this project is not running",
                hint=f"`reactor dev` starts it and serves; or set [kafka.{cluster}] bootstrap_servers in reactor.toml to brokers of yours",
            )
    return KafkaConnection(
        cluster, servers or "", k.security_protocol, k.sasl_mechanism, k.sasl_username, k.sasl_password.reveal() if k.sasl_password else None,
        k.ca_path, k.certificate_path, k.key_path,
    )


def lake_settings(project: Project, url: str) -> InstanceSettings:
    """How DuckDB opens the lakes, for whoever looks at them from outside of a run."""
    s = project.settings
    lakes = {name: LakeSettings(lake.data_path) for name, lake in s.lakes.named.items()}
    return InstanceSettings(url, lakes, s.lakes.default, s.resources.memory_limit_bytes, s.resources.threads, s.resources.temp_path)


async def log_bounds(project: Project, partitions: Collection[SourcePartition]) -> Mapping[SourcePartition, LogBounds]:
    """What topics hold now; one that does not exist is missing. Raises `Outage`."""
    clusters = {p.source.removeprefix("kafka://").partition("/")[0] for p in partitions}
    found: dict[SourcePartition, LogBounds] = {}
    for cluster in clusters:
        mine = [p for p in partitions if p.source.startswith(f"kafka://{cluster}/")]
        source = KafkaSource(kafka_connection(project, cluster), "", {p.source for p in mine}, clock=WallClock())
        try:
            found |= await source.bounds(mine)
        finally:
            await source.close()
    return found


async def absent_topics(project: Project, cluster: str, topics: Collection[str]) -> Collection[str]:
    """Those of the topics that a cluster does not have. Raises `Outage`, `UsageError`: the cluster does not answer, or refuses."""
    logs, nobody_s = Logs(kafka_connection(project, cluster)), "_reactor_doctor"
    try:
        return (await logs.report((), {*topics, nobody_s})).absent - {nobody_s}
    finally:
        await logs.close()


def duck_lake(project: Project, url: str) -> DuckLake:
    """All lakes, attached (blocking)."""
    s = project.settings
    lakes = {name: LakeSettings(lake.data_path) for name, lake in s.lakes.named.items()}
    return DuckLake(
        postgres_url=url, lakes=lakes, default_lake=s.lakes.default, memory_limit_bytes=s.resources.memory_limit_bytes,
        threads=s.resources.threads, temp_path=s.resources.temp_path, skip_unchanged=s.run.skip_unchanged,
        run_seconds_max=s.run.timeout_seconds,
    )


@dataclass(frozen=True, slots=True)
class Instead:
    """What stands in the place of a part, or around it, for tests of whole services (`reactor.testing`).

    `source`: makes the reader of (cluster, group, topics); None: Kafka's. `lake`: what the service sees of the lake.
    """

    source: Callable[[str, str, Collection[str]], Source] | None = None
    lake: Callable[[Lake], Lake] = lambda lake: lake


@dataclass(slots=True)
class Parts:
    """What a service is made of, and who must be closed after it."""

    project: Project
    state: PostgresState
    lake: Lake
    instead: Instead
    holder: str
    clock: WallClock
    telemetry: Telemetry
    publishers: list[Publisher] = field(default_factory=list)
    sources: list[KafkaSource] = field(default_factory=list)


KERNELS: Final = ("reactor.lake.decoding.scanner", "reactor.lake.decoding.instants", "reactor.lake.decoding.digits", "connectors.kafka.walk")
"""The modules of machine code that a service with streams needs (`reactor.compiled`)."""


def new_holder() -> str:
    """A name for leases that nobody else has."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


@asynccontextmanager
async def opened_service(
    project: Project, *, tags: Collection[str] = (), streams: bool = True, only: Collection[str] = (), instead: Instead = Instead(),
    telemetry: Telemetry | None = None, holder: str = "",
) -> AsyncIterator[Service]:
    """A service that is ready to `run`, and is closed afterwards.

    `streams` False: neither topics, outbox nor publishers, for a process that only carries out what was asked for by hand. `only`: these
    scripts. `telemetry`: whose metrics are counted on. `holder`: of `new_holder`, if that holds a lease already. Raises `Outage`, `UsageError`,
    `StateForbids`.
    """
    holder = holder or new_holder()
    async with opened_state(project, holder) as state:
        lake = await to_thread.run_sync(duck_lake, project, state_url(project))
        parts = Parts(project, state, instead.lake(lake), instead, holder, WallClock(), telemetry or Telemetry(__version__))
        try:
            for name, settings in project.settings.lakes.named.items():
                await state.watch_lake(name, watch_external=settings.watch_external)
                for run_id, snapshot_id in await state.account(name):
                    extra = {"event": "run_completed", "lake": name, "run_id": str(run_id), "snapshot_id": snapshot_id}
                    logger.warning("a snapshot that was published without the commit trigger is accounted for", extra=extra)
                parts.telemetry.know_lake(name)
            scripts = await _loadable(parts, [s for s in project.tagged(tags) if not only or s.path in only], only)
            yield await _service(parts, scripts, streams=streams)
        finally:
            for publisher in parts.publishers:
                await publisher.close()
            for source in parts.sources:  # runs read by it until they end, after its group was left
                await source.close()
            await to_thread.run_sync(lake.close)


async def _loadable(parts: Parts, scripts: Sequence[Script], only: Collection[str]) -> Sequence[Script]:
    """Without those that the state refuses. Raises `StateForbids` for one that was asked for by name."""
    refused = await refused_identities(parts.state, scripts)
    for path, why in refused.items():
        if path in only:
            raise StateForbids(f"{path} does not run: {why}")
        logger.error("%s does not run: %s", path, why, extra={"event": "script_refused", "script": path})
    return [s for s in scripts if s.path not in refused]


async def _service(parts: Parts, scripts: Sequence[Script], *, streams: bool) -> Service:
    settings, state = parts.project.settings, parts.state
    d = settings.debounce
    engine = Engine(Limits(d.quiet_seconds, d.wait_max_seconds, d.rows_max, d.bytes_max, d.open_bytes_max), settings.workspace)
    loop = Loop(engine, parts.clock)
    graphs = Graphs(loop, parts.telemetry)
    feeders = Feeders(parts, loop, graphs, streams=streams)

    async def graph_of(scripts: Sequence[Script], producers: Producers) -> Graph:
        refused = await until_it_answers(partial(refused_identities, state, scripts))
        if refused:
            raise StateForbids("; ".join(f"{path} does not run: {why}" for path, why in refused.items()))
        return feeders.graph(scripts, producers)

    committer = Committer(state, parts.lake, parts.telemetry)
    service = Service(
        engine=engine, loop=loop, executor=_executor(parts, loop, await state.epoch(), committer), state=state, liveness=state, probe=state, clock=parts.clock,
        telemetry=parts.telemetry, publishers=_publishers(parts) if streams else [], drain_seconds=settings.run.drain_seconds,
        graph=feeders.graph(scripts, parts.project.producers), graphs=graphs, graph_of=graph_of, lakes_away=parts.lake.away, interrupt=parts.lake.close,
    )
    committer.hint = service.hint
    return service


def _know(telemetry: Telemetry, script: Script) -> None:
    fired = any(edge.kind == "asset" for edge in script.edges)
    telemetry.know_asset(script.consumer, table=script.managed is not None, streams=bool(script.streams), fired=fired)


def _executor(parts: Parts, loop: Loop, epoch: Epoch, committer: Committer) -> Executor:
    settings = parts.project.settings
    programs = Programs(
        parts.project.folder, {name: str(r.interpreter) for name, r in settings.runners.items()}, settings.run.timeout_seconds,
        settings.run.program_memory_bytes_max,
    )

    def work_for(start: StartRun) -> Work:
        return ManagedWork(start, committer) if start.script.managed else ProgramWork(start, programs, committer)

    def lake_of(start: StartRun) -> str:
        managed = start.script.managed
        return LakeTable.parse(managed.asset).lake if managed else settings.lakes.default

    async def on_restored() -> None:
        await until_it_answers(partial(to_thread.run_sync, parts.lake.rebuild))
        await until_it_answers(parts.state.abort_own_runs)
        loop.tell(lambda engine, _: engine.forget_all())

    return Executor(
        state=parts.state, clock=parts.clock, holder=parts.holder, epoch=epoch, work_for=work_for, lake_of=lake_of, on_restored=on_restored,
        telemetry=parts.telemetry,
    )


# ---------------------------------------------------------------------------------------------------------------- what feeds it


class Feeders:
    """Makes what feeds scripts; what feeds the graph that runs is used again."""

    def __init__(self, parts: Parts, loop: Loop, graphs: Graphs, *, streams: bool) -> None:
        self._parts, self._loop, self._graphs, self._streams = parts, loop, graphs, streams
        self._scripts: dict[Consumer, Script] = {}
        self._columns: Mapping[tuple[str, JsonPath], Sequence[BatchColumn]] = {}
        self._starts = PositionStarts(parts.state, self._scripts, {name: k.auto_offset_reset for name, k in parts.project.settings.kafka.items()})

    def graph(self, scripts: Sequence[Script], producers: Producers) -> Graph:
        """These scripts with their readers. Raises `Outage` like `kafka_connection`."""
        self._scripts |= {Consumer(s.consumer): s for s in scripts}
        self._columns = columns_by_path(scripts)
        feedings: dict[tuple[str, str], Feeding] = {}
        for tag in {s.header.tag or "" for s in scripts}:
            fired = self._streams and any(e.kind == "asset" for s in scripts if (s.header.tag or "") == tag for e in s.edges)
            for queue in _queues(self._parts, tag, outbox=fired):
                key = (tag, queue.partition.source)
                feedings[key] = self._graphs.current.feedings.get(key) or QueueFeeding(queue, self._intake(tag))
        for (cluster, tag), topics in _topics(scripts).items() if self._streams else ():
            feeding = self._running(cluster, tag) or self._external(cluster, tag, topics)
            feedings |= {(tag, f"kafka://{cluster}/{topic}"): feeding for topic in topics}
        for script in scripts:
            _know(self._parts.telemetry, script)
        return Graph(scripts, producers, feedings)

    def _running(self, cluster: str, tag: str) -> Feeding | None:
        """What reads other topics of this cluster for the same tag."""
        its = ((source, feeding) for (t, source), feeding in self._graphs.current.feedings.items() if t == tag)
        return next((feeding for source, feeding in its if source.startswith(f"kafka://{cluster}/")), None)

    def _external(self, cluster: str, tag: str, topics: Collection[str]) -> ExternalFeeding:
        settings = self._parts.project.settings
        source = _source(self._parts, cluster, settings.group_id(cluster) + (f"-{tag}" if tag else ""), topics)
        self._starts.sources[cluster] = source
        return ExternalFeeding(source, self._intake(tag, ephemeral=settings.kafka[cluster].embedded))

    def _intake(self, tag: str, *, ephemeral: bool = False) -> SourceIntake:
        p = self._parts
        return SourceIntake(tag, self._loop, p.state, ArrowSplitter(self._columns_of), p.clock, self._starts, self._table_uuid, p.telemetry, ephemeral)

    def _columns_of(self, source: str, path: JsonPath) -> Sequence[BatchColumn]:
        return self._columns.get((source, path), ())

    def _table_uuid(self, consumer: Consumer) -> UUID | None:
        return self._parts.lake.ensure_table(self._scripts[consumer])


def _source(parts: Parts, cluster: str, group: str, topics: Collection[str]) -> Source:
    if parts.instead.source is not None:
        return parts.instead.source(cluster, group, topics)
    connection = kafka_connection(parts.project, cluster)
    source = KafkaSource(connection, group, topics, clock=parts.clock, replica_id=parts.project.settings.replica_id)
    parts.sources.append(source)
    return source


def _topics(scripts: Sequence[Script]) -> Mapping[tuple[str, str], set[str]]:
    """Topics by cluster and tag."""
    topics: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for script in scripts:
        for edge in script.streams:
            cluster, _, topic = edge.uri.removeprefix("kafka://").partition("/")
            topics[cluster, script.header.tag or ""].add(topic)
    return topics


def columns_by_path(scripts: Sequence[Script]) -> Mapping[tuple[str, JsonPath], Sequence[BatchColumn]]:
    """By source and path the columns that are declared by scripts whose slices are found there in its payloads, and that may be kept."""
    columns: defaultdict[tuple[str, JsonPath], dict[BatchColumn, None]] = defaultdict(dict)
    for script in scripts:
        partitioning, batch = script.header.partitioned, script.header.batch or ()
        path = partitioning and (partitioning.key or partitioning.event_time)
        if isinstance(path, tuple) and keepable(batch):
            for edge in script.streams:
                columns[edge.uri, path] |= dict.fromkeys(batch)
    return {place: tuple(declared) for place, declared in columns.items()}


def _queues(parts: Parts, tag: str, *, outbox: bool) -> Sequence[QueueSource]:
    """`outbox`: somebody is fired by assets."""
    state, workspace = parts.state, parts.project.settings.workspace
    asked = QueueSource(inbox_of(workspace), inbox_lease(tag), parts.holder, state, parts.clock, state.read_inbox, state.inbox_next)
    committed = QueueSource(outbox_of(workspace), f"outbox:{tag}", parts.holder, state, parts.clock, state.read_outbox, state.outbox_next)
    return [asked, committed] if outbox else [asked]


def inbox_lease(tag: str) -> str:
    """Who holds it carries out what is asked of the scripts with this tag."""
    return f"inbox:{tag}"


def _publishers(parts: Parts) -> Sequence[Publishing]:
    settings = parts.project.settings
    publishings = []
    for name, p in settings.publishers.items():
        if p.kind != "kafka":
            raise UsageError(f"[publishers.{name}]: kind `{p.kind}` is known, not active yet", hint="publish to a Kafka topic, or take the section out")
        cluster = p.cluster or next(iter(settings.kafka), "")
        publisher = KafkaPublisher(
            f"{settings.installation}-{settings.workspace}-{name}", kafka_connection(parts.project, cluster), topic=p.topic,
            best=Guarantee.ACKNOWLEDGED if settings.kafka[cluster].embedded else Guarantee.TRANSACTIONAL,
        )
        parts.publishers.append(publisher)
        parts.telemetry.know_publisher(name)
        publishings.append(Publishing(
            name, publisher, wanted_by(p.assets, p.types), outbox_of(settings.workspace), parts.holder, parts.state, parts.state, parts.clock,
            parts.telemetry,
        ))
    return publishings
