"""Metric and log names, declared once (conventions 4 and 5).

Each metric stands here with its type, labels and meaning; a label set starts at 0 when its asset or source is known. Logs are ordinary
`logging` records: `extra` carries the fields, `event` among them; `JsonLines` writes one object a line. No row values, no secrets.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from reactor.domain.decisions import ROUTER_SKIPS
from reactor.errors import ReactorError

SETTLED = ("committed", "filtered", "duplicate", "quarantined", "tombstone", "skewed")
REFUSALS = ("token", "conflict")
RUN_OUTCOMES = ("completed", "failed", "aborted")
PUBLISHED = ("sent", "failed", "dropped")
RUN_BUCKETS = (0.1, 1.0, 10.0, 100.0)
"""Few: each is a series of each outcome of each asset, and an asset has at most 50."""
COMMIT_BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)


class Telemetry:
    """The metrics of one service, in a registry of its own."""

    def __init__(self, version: str = "", revision: str = "") -> None:
        no_created_series: Callable[[], None] = disable_created_metrics
        no_created_series()
        r = self.registry = CollectorRegistry()
        self.build_info = Gauge("reactor_build_info", "What runs here.", ["version", "revision"], registry=r)
        self.heartbeat = Gauge("reactor_heartbeat_timestamp_seconds", "When a part last turned.", ["role"], registry=r)
        self.runs = Gauge("reactor_runs", "Runs that wait for or have their lane.", ["asset", "state"], registry=r)
        self.slices = Gauge("reactor_slices", "Slices by what they wait for.", ["asset", "state"], registry=r)
        self.slice_oldest_due = Gauge(
            "reactor_slice_oldest_due_timestamp_seconds", "Since when the oldest due slice waits; absent when none does.", ["asset"], registry=r)
        self.source_lag = Gauge("reactor_source_lag_events", "Log end minus floor.", ["source", "source_partition"], registry=r)
        self.source_position = Gauge("reactor_source_position_offset", "Next offset that is not settled.", ["source", "source_partition"], registry=r)
        self.outbox_oldest = Gauge(
            "reactor_outbox_oldest_timestamp_seconds", "Time of the oldest event that a publisher has not sent; absent when none waits.",
            ["publisher"], registry=r)
        self.asset_paused = Gauge("reactor_asset_paused", "1 while the asset is paused: its slices gather.", ["asset"], registry=r)
        self.asset_last_success = Gauge("reactor_asset_last_success_timestamp_seconds", "End of the last completed run.", ["asset"], registry=r)
        self.asset_partitions = Gauge("reactor_asset_partitions", "Asset partitions by how they stand.", ["asset", "state"], registry=r)
        self.source_events = Counter("reactor_source_events", "Records read.", ["source"], registry=r)
        self.events_settled = Counter("reactor_events_settled", "Records by what became of them.", ["asset", "outcome"], registry=r)
        self.decisions = Counter("reactor_decisions", "What the router decided.", ["asset", "outcome", "reason"], registry=r)
        self.rows_written = Counter("reactor_rows_written", "Rows of the lake.", ["asset", "operation"], registry=r)
        self.commits_refused = Counter("reactor_commits_refused", "Commits that another writer was before.", ["lake", "reason"], registry=r)
        self.events_published = Counter("reactor_events_published", "Events by what became of them.", ["publisher", "outcome"], registry=r)
        self.run_duration = Histogram("reactor_run_duration_seconds", "From start to end.", ["asset", "outcome"], buckets=RUN_BUCKETS, registry=r)
        self._commit_duration = Histogram("reactor_commit_duration_seconds", "COMMIT alone.", ["lake"], buckets=COMMIT_BUCKETS, registry=r)
        self.build_info.labels(version, revision).set(1)

    def know_asset(self, asset: str, *, table: bool, streams: bool, fired: bool) -> None:
        """Label sets of an asset, or of a program's path, start at 0.

        `table`: it writes one; `streams`: records feed it; `fired`: other assets do.
        """
        for outcome in RUN_OUTCOMES:
            self.run_duration.labels(asset, outcome)
        self.asset_paused.labels(asset)
        for state in ("queued", "running"):
            self.runs.labels(asset, state)
        for state in ("open", "due", "blocked"):
            self.slices.labels(asset, state)
        for outcome in SETTLED if streams else ():
            self.events_settled.labels(asset, outcome)
        for operation in ("insert", "delete") if table else ():
            self.rows_written.labels(asset, operation)
        for state in ("running", "failed", "materialized") if table else ():
            self.asset_partitions.labels(asset, state)
        self.decisions.labels(asset, "dispatched", "")
        for reason in ROUTER_SKIPS if fired else ():
            self.decisions.labels(asset, "skipped", reason)

    def forget_asset(self, asset: str) -> None:
        """It has no script any more."""
        for metric in vars(self).values():
            if isinstance(metric, Gauge | Counter | Histogram):
                with suppress(ValueError):  # it has no such label
                    metric.remove_by_labels({"asset": asset})

    def know_lake(self, lake: str) -> None:
        """Label sets of a lake start at 0."""
        for reason in REFUSALS:
            self.commits_refused.labels(lake, reason)
        self._commit_duration.labels(lake)

    def know_publisher(self, publisher: str) -> None:
        """Label sets of a publisher start at 0."""
        for outcome in PUBLISHED:
            self.events_published.labels(publisher, outcome)

    @staticmethod
    def forget(metric: Gauge | Counter, *labels: str) -> None:
        """A series that has nothing to say is absent."""
        with suppress(KeyError):
            metric.remove(*labels)

    @contextmanager
    def commit_duration(self, lake: str) -> Iterator[None]:
        """Time a COMMIT."""
        with self._commit_duration.labels(lake).time():
            yield


# ---------------------------------------------------------------------------------------------------------------- logs

LIBRARIES = ("aiokafka", "asyncio")
"""Whose warnings are of use, and whose information is not."""
SAID_BY_US = frozenset({
    "Topic %s not found in cluster metadata", "No partition metadata for topic %s", "No partition metadata for topic %r",
})  # fmt: skip
"""What libraries say of a topic that is not there yet: the source says so, once and in words that help."""
REPEAT_SECONDS = 30.0
EVENTS: Mapping[str, str] = MappingProxyType({
    "service_started": "The process is there; where its health is asked.",
    "service_ready": "Everything that it needs answers.",
    "service_progress": "Every 10 s: rows, runs, lag.",
    "view_failed": "What shows how far it is has failed; the service goes on.",
    "watch_failed": "Files cannot be watched now; SIGHUP reloads all the same.",
    "service_draining": "It takes nothing new, and ends what it has begun.",
    "service_stopped": "The process ends.",
    "source_assigned": "Source partitions are read by this replica from now on.",
    "source_revoked": "They are read by another one.",
    "source_paused": "Nothing more is read of a source partition: no asset has room for it.",
    "source_resumed": "It is read on.",
    "source_gap_found": "Records were gone before they were read.",
    "dispatch_skipped": "An event starts no run of a script, and why.",
    "run_started": "A run has its row, and commits next.",
    "run_completed": "Its rows, positions and events are committed.",
    "run_failed": "The script's own work failed.",
    "run_aborted": "It was not committed, and is done again.",
    "run_deferred": "It was not begun, because a part is away; it is begun again.",
    "run_warned": "It is completed, and its author should look at something.",
    "commit_refused": "Another writer was first; it is tried again from what is stored.",
    "event_quarantined": "Records that cannot be rows were set aside.",
    "event_published": "A publisher has sent an event (at the level debug).",
    "schema_changed": "The columns of a table are other ones by this commit.",
    "asset_paused": "Somebody has paused an asset.",
    "asset_resumed": "Somebody has resumed it.",
    "script_refused": "A script does not run, and why.",
    "lines_dropped": "A script runs without some of its lines.",
    "service_reloaded": "Other scripts run from now on, and which.",
    "reload_refused": "The project on disk is not taken over, and why; the scripts of before go on.",
    "settings_changed": "The settings on disk are other ones: they take effect with a restart.",
    "no_script": "There is nothing to run.",
    "signal_received": "Somebody asks it to stop; `reason` is the signal.",
    "start_waits": "The start waits for a part that is away.",
    "state_away": "PostgreSQL does not answer, or a lake that is needed to know what a commit has left; it is asked on.",
    "source_away": "A source does not answer; it is asked on.",
    "source_halted": "A source partition is not read before somebody has decided.",
    "publisher_away": "A publisher cannot send; it goes on later.",
    "turn_skipped": "Something that is done now and then was left out once (at the level debug).",
    "task_failed": "A part of the service has failed, and with it the service.",
    "log": "Anything else, said by a library mostly.",
})
"""What a line of the log may be about, and what that means."""
SEVERITIES = {"DEBUG": "debug", "INFO": "info", "WARNING": "warning", "ERROR": "error", "CRITICAL": "critical"}
FIELDS: Sequence[str] = (
    "event", "asset", "partition", "source", "source_partition", "script", "run_id", "root_run_id", "event_id", "snapshot_id", "attempt", "rows",
    "duration_seconds", "trace_id", "span_id", "error.type", "error.message", "lake", "publisher", "reason",
)


class JsonLines(logging.Formatter):
    """One JSON object a line: timestamp, severity, event, message, and the fields that are known."""

    def format(self, record: logging.LogRecord) -> str:
        """A record as a line."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line: dict[str, object] = {
            "timestamp": at, "severity": SEVERITIES.get(record.levelname, "info"), "event": getattr(record, "event", "log"),
            "message": record.getMessage(),
        }
        line |= {name: value for name in FIELDS[1:] if (value := getattr(record, name, None)) not in {None, ""}}
        if record.exc_info and record.exc_info[1] is not None:
            line.setdefault("error.type", type(record.exc_info[1]).__name__)
            line.setdefault("error.message", said(record.exc_info[1]))
        return json.dumps(line, default=str)


class Words(logging.Formatter):
    """For a terminal: time, severity, message, and of an error where it happened."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S")

    def formatException(self, ei: Any) -> str:  # noqa: N802, ANN401 - the name and the type are those of `logging`
        """Without what the error quotes."""
        kind, error, where = ei
        return "".join(traceback.format_tb(where)) + f"{kind.__name__}: {said(error)}"


def said(error: BaseException) -> str:
    """What a log may hold of an error. A foreign one may quote a row, so only the place of it is told."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ReactorError):
        return error.headline
    if isinstance(error, OSError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"


class Calm(logging.Filter):
    """A library's message passes once in `REPEAT_SECONDS`: of a broker that is away aiokafka says so forty times a second, as long as it is."""

    def __init__(self) -> None:
        super().__init__()
        self._passed_at: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is said."""
        if record.name.partition(".")[0] not in LIBRARIES:
            return True
        if record.msg in SAID_BY_US:
            return False
        key = (record.name, str(record.msg))
        passes = record.created - self._passed_at.get(key, 0.0) >= REPEAT_SECONDS
        if passes:
            self._passed_at[key] = record.created
        return passes


def start_logging(stream: TextIO | None = None, *, level: str = "info", form: Literal["json", "text"] = "json") -> None:
    """All of this process's logs to one stream (default: stderr)."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else Words())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    handler.addFilter(Calm())
    for library in LIBRARIES:
        logging.getLogger(library).setLevel("WARNING")
