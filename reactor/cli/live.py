"""What is seen of a running service from outside: a `Collector` asks the state and the metrics, and makes a `View` of the answers.

    state: runs, tables, rows ─┐
    /metrics: lag, lanes       ─┴─▶ Collector.look ─▶ View ─▶ screen (a terminal) or line (a file)

Reading only: whoever looks decides nothing. A part that does not answer leaves its place on the screen empty.
"""

from __future__ import annotations

import http.client
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from reactor.domain.assets import LakeTable
from reactor.domain.runs import RunId
from reactor.domain.scripts import Script
from reactor.errors import Outage, StateForbids
from reactor.lake.quarantine import quarantine_table
from reactor.state import PostgresState
from reactor.state.listing import RunSummary, TableSummary

RATE_SECONDS: Final = 10.0
"""Over how long a source's rate is taken."""
RUNS_LIMIT: Final = 200
"""Runs of one question."""
OVERLAP_SECONDS: Final = 60.0
"""How much later than others a run may show up in the list whose id is older."""
SCRAPE_SECONDS: Final = 2.0

Scrape = Callable[[], Awaitable[Sequence[Sample]]]
"""The metrics of a service; raises `Outage`."""


@dataclass(frozen=True, slots=True)
class SourceView:
    """A topic. `rate`: records a second that come in; None: not yet known."""

    source: str
    lag_events: int
    rate: float | None


@dataclass(frozen=True, slots=True)
class LaneView:
    """What a lane has to do."""

    running: bool = False
    slices_open: int = 0
    slices_due: int = 0
    slices_blocked: int = 0
    paused: bool = False


@dataclass(frozen=True, slots=True)
class RunView:
    """The newest run of a script that has ended: why it was started, and with which upstream snapshots."""

    run: RunSummary
    upstream: Sequence[Mapping[str, object]]
    event_count: int


@dataclass(frozen=True, slots=True)
class AssetView:
    """A script and what it makes: `name` is the asset, or the script's path if it makes none. None: nothing to say yet."""

    name: str
    script: str
    rows: int | None = None
    snapshot_id: int | None = None
    lane: LaneView | None = None
    last: RunView | None = None
    succeeded_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Totals:
    """Since the collector began: rows that runs inserted, completed runs, their snapshots, those that another asset fired, records set aside."""

    rows: int = 0
    runs: int = 0
    snapshots: int = 0
    cascades: int = 0
    quarantined: int = 0


@dataclass(frozen=True, slots=True)
class View:
    """Everything at one moment (`at`, POSIX seconds). `quarantined`: records that the lakes have set aside, ever."""

    assets: Sequence[AssetView] = ()
    sources: Sequence[SourceView] = ()
    totals: Totals = field(default_factory=Totals)
    quarantined: int = 0
    at: float = 0.0

    @property
    def lag_events(self) -> int:
        """Records that are not settled yet, of all topics."""
        return sum(source.lag_events for source in self.sources)

    @property
    def at_rest(self) -> bool:
        """Whether nothing is left to do: no lag, and no lane that runs or has slices to run."""
        lanes = [asset.lane for asset in self.assets]
        return bool(self.sources) and self.lag_events == 0 and all(lane is not None and lane in _AT_REST for lane in lanes)


_AT_REST: Final = (LaneView(),)


class Collector:
    """Looks at one project. `scripts`: upstream first, as they are to be shown; `since`: runs created before it are not counted."""

    def __init__(self, state: PostgresState, lakes: Sequence[str], scripts: Sequence[Script], scrape: Scrape, since: datetime) -> None:
        self._state, self._lakes, self.scripts, self._scrape = state, lakes, scripts, scrape
        self._ended = EndedRuns(state, since)
        self._rates = Rates()
        self._last: dict[str, RunView] = {}
        self._quarantined_before: int | None = None

    async def look(self, now: float) -> View:
        """The view at this moment. `now`: POSIX seconds. Raises `Outage` if PostgreSQL does not answer."""
        try:
            samples = await self._scrape()
        except Outage:
            samples = ()
        rows = await self._rows()
        quarantined = sum(rows.get(quarantine_table(LakeTable(lake, "main", "")).uri, 0) for lake in self._lakes)
        if self._quarantined_before is None:
            self._quarantined_before = quarantined
        await self._ended.look()
        tables = {table.asset: table for table in await self._state.tables()}
        lanes = _lanes(samples)
        assets = [await self._asset(script, rows.get(script.consumer), tables.get(script.consumer), lanes.get(script.consumer)) for script in self.scripts]
        totals = replace(self._ended.totals, quarantined=quarantined - self._quarantined_before)
        return View(assets, self._rates.of(samples, now), totals, quarantined, now)

    async def _asset(self, script: Script, rows: int | None, table: TableSummary | None, lane: LaneView | None) -> AssetView:
        last = await self._last_run(script.path)
        succeeded = [table.updated_at, table.checked_at] if table else []
        succeeded += [last.run.finished_at] if last and last.run.state == "completed" else []
        newest = max((at for at in succeeded if at is not None), default=None)
        return AssetView(script.consumer, script.path, rows, table.snapshot_id if table else None, lane, last, newest)

    async def _rows(self) -> Mapping[str, int]:
        """Rows by asset; a lake that nobody has made yet has none."""
        found: dict[str, int] = {}
        for lake in self._lakes:
            try:
                found |= await self._state.row_counts(lake)
            except StateForbids:
                continue
        return found

    async def _last_run(self, script: str) -> RunView | None:
        run, shown = self._ended.last.get(script), self._last.get(script)
        if run is not None and (shown is None or shown.run.run_id != run.run_id) and (record := await self._state.run(RunId(run.run_id))):
            trigger = record.trigger
            upstream, positions = (_objects(trigger.get(name)) for name in ("upstream_snapshots", "positions"))
            self._last[script] = RunView(run, upstream, sum(int(str(p["event_count"])) for p in positions))
        return self._last.get(script)


class EndedRuns:
    """Counts runs that have ended, each once, and keeps the newest of each script."""

    def __init__(self, state: PostgresState, since: datetime) -> None:
        self._state, self._from = state, since
        self._counted: dict[UUID, datetime] = {}
        self.totals = Totals()
        self.last: dict[str, RunSummary] = {}

    async def look(self) -> None:
        """Count what has ended since the last look."""
        found = await self._since_last()
        for run in reversed(found):
            if run.state in {"completed", "failed", "aborted"} and run.run_id not in self._counted:
                self._counted[run.run_id] = run.created_at
                self.last[run.script] = run
                self.totals = _counted(self.totals, run)
        if found:
            live = [run.created_at for run in found if run.state in {"queued", "running"}]
            overlap = max(run.created_at for run in found) - timedelta(seconds=OVERLAP_SECONDS)
            self._from = max(self._from, min([*live, overlap]))
            self._counted = {run_id: at for run_id, at in self._counted.items() if at >= self._from}

    async def _since_last(self) -> Sequence[RunSummary]:
        """Newest first: all runs that may not be counted yet."""
        found: list[RunSummary] = []
        before: RunId | None = None
        while page := await self._state.runs(before=before, limit=RUNS_LIMIT):
            found += [run for run in page if run.created_at >= self._from]
            if len(page) < RUNS_LIMIT or page[-1].created_at < self._from:
                break
            before = RunId(page[-1].run_id)
        return found


def _counted(totals: Totals, run: RunSummary) -> Totals:
    if run.state != "completed":
        return totals
    return replace(
        totals, rows=totals.rows + (run.rows_inserted or 0), runs=totals.runs + 1,
        snapshots=totals.snapshots + (run.snapshot_id is not None), cascades=totals.cascades + (run.reason == "asset"),
    )  # fmt: skip


class Rates:
    """How fast sources grow, from the ends of their logs over the last seconds."""

    def __init__(self) -> None:
        self._ends: dict[str, deque[tuple[float, int]]] = {}

    def of(self, samples: Iterable[Sample], now: float) -> Sequence[SourceView]:
        """The topics, by name."""
        lags, ends = dict[str, int](), dict[str, int]()
        for sample in samples:
            source, value = sample.labels.get("source", ""), int(sample.value)
            if not source.startswith("kafka://"):
                continue
            if sample.name == "reactor_source_lag_events":
                lags[source] = lags.get(source, 0) + value
            if sample.name in {"reactor_source_lag_events", "reactor_source_position_offset"}:
                ends[source] = ends.get(source, 0) + value
        return [SourceView(source, lags[source], self._rate(source, now, ends[source])) for source in sorted(lags)]

    def _rate(self, source: str, now: float, end: int) -> float | None:
        seen = self._ends.setdefault(source, deque())
        if seen and end < seen[-1][1]:
            seen.clear()  # another log under the same name
        seen.append((now, end))
        while len(seen) > 2 and seen[1][0] <= now - RATE_SECONDS:
            seen.popleft()
        (since, first), (until, last) = seen[0], seen[-1]
        return (last - first) / (until - since) if until > since else None


def _lanes(samples: Iterable[Sample]) -> Mapping[str, LaneView]:
    """By consumer."""
    lanes: dict[str, LaneView] = {}
    for sample in samples:
        asset, state, value = sample.labels.get("asset", ""), sample.labels.get("state", ""), int(sample.value)
        lane = lanes.get(asset, LaneView())
        match sample.name, state:
            case "reactor_runs", "running":
                lanes[asset] = replace(lane, running=value > 0)
            case "reactor_slices", "open":
                lanes[asset] = replace(lane, slices_open=value)
            case "reactor_slices", "due":
                lanes[asset] = replace(lane, slices_due=value)
            case "reactor_slices", "blocked":
                lanes[asset] = replace(lane, slices_blocked=value)
            case "reactor_asset_paused", _:
                lanes[asset] = replace(lane, paused=value > 0)
    return lanes


def _objects(value: object) -> Sequence[Mapping[str, object]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def scraped(host: str, port: int) -> Sequence[Sample]:
    """The samples of `/metrics` on this port (blocking). Raises `Outage`."""
    connection = http.client.HTTPConnection(host, port, timeout=SCRAPE_SECONDS)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    except (OSError, http.client.HTTPException) as error:
        raise Outage(f"http://{host}:{port}/metrics does not answer: {error}") from error
    finally:
        connection.close()
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]
