"""The engine alone: how many spans a second it takes, with 1,000 assets and 100 open asset partitions.

    python bench/engine.py [--spans 200000] [--rounds 3] [--json PATH] [--profile]

A *span offered* is one call of `Engine.offer` with a span that a source and the splitter have made before (their time is not in it), and all
that the engine decides because of it: routing to the lanes that read its topic, the ledger, the debounce, the ticks between (one after
each 32 spans, as the runtime does), the runs that fall due with their claims, their outcomes (all commit at once), settled floors and the
group offsets. Each span has 1,000 records of one asset partition; limits are the defaults, so each hundredth span of an asset
partition makes a run due by its rows; all asset partitions are open before the clock starts. Time is virtual and passes as if 100,000 spans a second arrived. One thread, no I/O.

    100 open     1,000 assets, each of a topic of its own; spans come for 100 of them in turn, one asset partition each
    100 each     the same 1,000 assets, all at once, each with 100 open asset partitions: 100,000 in all
    ten readers  100 topics, each read by 10 assets: a span is decided ten times
    cascade      each of the 1,000 assets is fired by the one before it; a span is one update, and starts one run at once

Seconds are of the processor, and the best of some rounds counts: others may use the machine.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import pstats
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from uuid import UUID

from reactor.core.effects import Committed, Effect, Feed, Settle, Settled, StartRun
from reactor.core.engine import Engine
from reactor.core.lanes import Limits, routing_of
from reactor.domain.events import AssetUpdated
from reactor.domain.scripts import Body, Edge, Header, Materialize, Script, ScriptPath
from reactor.domain.spans import Piece, Position, SourcePartition, Span, Token, outbox_of

ASSETS = 1_000
SPANS_PER_TURN = 32
SPANS_PER_SECOND = 100_000
ROWS, SIZE_BYTES = 1_000, 1_000
TOKEN = Token(UUID(int=1))


@dataclass(frozen=True)
class Load:
    """Topics that are written to, how many assets read each, and how many asset partitions of each are written to."""

    topics: int
    readers: int
    partitions: int
    cascade: bool = False


LOADS = {"100 open": Load(100, 1, 1), "100 each": Load(1_000, 1, 100), "ten readers": Load(100, 10, 1), "cascade": Load(1_000, 1, 1, cascade=True)}
OUTBOX = outbox_of("prod")


def asset(number: int, edge: Edge) -> Script:
    """Every second one appends, the others merge: a run takes all due slices, or one."""
    header = Header(edges=(edge,), materialize=Materialize(f"ducklake://main/t{number}", "merge" if number % 2 else "append"))
    return Script(ScriptPath(f"{number}.sql"), "sql", str(number), header, Body(select="FROM batch", reads_batch=True), (edge,))


class Bench:
    """One engine under one load."""

    def __init__(self, load: Load) -> None:
        topics = [SourcePartition(f"kafka://main/topic{n}", "0") for n in range(ASSETS // load.readers)]
        updates = [Edge("asset", f"ducklake://main/t{(n or ASSETS) - 1}") for n in range(ASSETS)]
        scripts = [asset(n, updates[n] if load.cascade else Edge("kafka", topics[n // load.readers].source)) for n in range(ASSETS)]
        self.routing = routing_of(scripts[0]).fingerprint
        self.load, self.feeds = load, [Feed("", topic) for topic in topics[: load.topics]]
        self.engine, self.now, self.runs = Engine(Limits(), "prod"), 1.0, 0
        self.engine.set_scripts(scripts, {})
        for partition in (*topics, OUTBOX):
            feed = Feed("", partition)
            self.engine.assigned(feed, {lane.consumer: Position(0, TOKEN, self.routing) for lane in self.engine.feeds.listeners(feed)}, self.now)
        self.carry_out(self.engine.tick(self.now))
        self.source = self.updates() if load.cascade else self.spans()
        self.take(0 if load.cascade else load.topics * load.partitions)

    def spans(self) -> Iterator[tuple[Feed, Span]]:
        """For ever, each topic in turn, and its asset partitions in turn."""
        lo = 0
        while True:
            partition = str(lo // ROWS % self.load.partitions)
            for feed in self.feeds:
                pieces = {self.routing: {partition: Piece(lo, lo + ROWS, ROWS, SIZE_BYTES, None)}}
                yield feed, Span(feed.source_partition, lo, lo + ROWS, self.now, SIZE_BYTES, pieces)
            lo += ROWS

    def updates(self) -> Iterator[tuple[Feed, Span]]:
        """For ever, an update of each asset in turn."""
        for offset in count():
            event = AssetUpdated(offset, str(offset), f"ducklake://main/t{offset % ASSETS}", "", offset, "main", self.now)
            yield Feed("", OUTBOX), Span(OUTBOX, offset, offset + 1, self.now, event.size_bytes, events=(event,))

    def carry_out(self, effects: Iterable[Effect]) -> None:
        """Every run commits at once."""
        waiting = list(effects)
        while waiting:
            effect = waiting.pop()
            if isinstance(effect, StartRun):
                self.runs += 1
                waiting += self.engine.outcome(Committed(effect.ticket, TOKEN), self.now)
                waiting += self.engine.tick(self.now)
            elif isinstance(effect, Settle):
                waiting += self.engine.settled(Settled(effect.ticket, TOKEN, {}))

    def take(self, spans: int) -> float:
        """Spans a second."""
        seconds = 1e-9
        for _ in range(spans // SPANS_PER_TURN):
            turn = list(islice(self.source, SPANS_PER_TURN))
            self.now += SPANS_PER_TURN / SPANS_PER_SECOND
            began = time.process_time()
            effects: list[Effect] = []
            for feed, span in turn:
                effects += self.engine.offer(feed, span, self.now)
            effects += self.engine.tick(self.now)
            self.carry_out(effects)
            seconds += time.process_time() - began
        return spans / seconds


def measured(load: Load, spans: int, rounds: int) -> dict[str, int]:
    best, runs = 0.0, 0
    for _ in range(rounds):
        gc.collect()
        bench = Bench(load)
        best, runs = max(best, bench.take(spans)), bench.runs
    return {"spans": spans, "spans_per_second": round(best), "decisions_per_second": round(best * load.readers), "runs": runs}


def main() -> None:
    arguments = argparse.ArgumentParser(description="Spans a second that the engine alone takes")
    arguments.add_argument("--spans", type=int, default=200_000)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--json", type=Path)
    arguments.add_argument("--profile", choices=LOADS, help="where the time of one load goes, instead")
    asked = arguments.parse_args()
    if asked.profile:
        profile, bench = cProfile.Profile(), Bench(LOADS[asked.profile])
        profile.runcall(bench.take, asked.spans)
        pstats.Stats(profile).sort_stats("tottime").print_stats(40)
        return
    rows = {name: measured(load, asked.spans // (ASSETS if load.cascade else load.readers) // SPANS_PER_TURN * SPANS_PER_TURN, asked.rounds) for name, load in LOADS.items()}
    print(f"{'':14}{'spans/s':>12}{'decisions/s':>14}{'runs':>10}")
    for name, row in rows.items():
        print(f"{name:14}{row['spans_per_second']:12,}{row['decisions_per_second']:14,}{row['runs']:10,}")
    if asked.json:
        asked.json.write_text(json.dumps({"engine": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
