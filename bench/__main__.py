"""`python -m bench speed` and `python -m bench growth`; see `make bench` and `make growth`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated

import typer

from bench import growth as grown
from bench import results, speed
from bench.children import ROOT
from bench.ground import Ground, ground
from bench.hops import hop
from bench.latency import latency
from bench.memory import memory
from bench.options import Options
from bench.screen import Screen
from bench.start import start

app = typer.Typer(add_completion=False, help=__doc__, pretty_exceptions_enable=False)
TOPICS = "BENCH_TOPICS"
"""Environment variable: what the names of the filled topics begin with, where others use the same Kafka."""
RATES = ("limit", "drain", "reactor", "dirty", "hand", "bytewax", "quix")
TURNS = 3
"""The machine is never twice as fast, and a broker that has just started is slower."""
RIVALS = {"bytewax": ("bytewax.run", "bench.rivals.bytewax_flow"), "quix": ("bench.rivals.quix",)}
Measurement = Callable[[], dict[str, float]]


@app.command("speed")
def run_speed(
    events: Annotated[int, typer.Option(help="That Reactor, the loop by hand and the limits take.")] = 1_000_000,
    rival_events: Annotated[int, typer.Option(help="That Bytewax and Quix Streams take; 0: a fifth.")] = 0,
    seconds: Annotated[float, typer.Option(help="Of the latency, of the sustained load, and without a lake.")] = 60.0,
    hops: Annotated[int, typer.Option(help="Of the cascade.")] = 200,
    only: Annotated[str, typer.Option(help="Names of measurements, by comma; without: all.")] = "",
    rivals_python: Annotated[Path | None, typer.Option(help="The interpreter that has the rivals; without: they are left out.")] = None,
    output: Annotated[Path, typer.Option(help="Where the JSON goes.")] = ROOT / "bench/results/speed.json",
) -> None:
    """Rates, latency and memory, against the goals."""
    options = Options(ROOT / ".reactor/bench", events, rival_events or max(1, events // 5), seconds, hops, rivals_python)
    with Screen() as screen, ground(options.folder) as stands:
        wanted = {name: measure for name, measure in _measurements(stands, options, screen).items() if not only or name in only.split(",")}
        measured = _in_turn(wanted, screen)
    numbers = results.summed_up(measured)
    results.write(output, measured, numbers, {"events": events, "seconds": seconds, "hops": hops})
    results.show(measured, numbers)
    print(f"written to {output}", file=sys.stderr)
    print(results.line(numbers))
    if measured.keys() != wanted.keys():
        raise typer.Exit(1)


def _in_turn(wanted: dict[str, Measurement], screen: Screen) -> dict[str, dict[str, float]]:
    """The rates several times, one after the other: of each number the median counts. What lasts longer once."""
    found: dict[str, list[dict[str, float]]] = {}
    for name in ("produced", *RATES * TURNS, *(name for name in wanted if name not in RATES and name != "produced")):
        if name in wanted and all(found.setdefault(name, [])):
            found[name].append(_measured(name, wanted[name], screen))
    return {name: {number: median(turn[number] for turn in turns) for number in turns[0]} for name, turns in found.items() if turns and all(turns)}


def _measured(name: str, measure: Measurement, screen: Screen) -> dict[str, float]:
    """Nothing, if it fails: the others are measured all the same, and the program ends with 1."""
    try:
        numbers = measure()
    except (RuntimeError, ValueError, AssertionError, OSError) as error:  # TimeoutError is an OSError
        screen.fail(name, error)
        return {}
    screen.say(name, numbers)
    return numbers


def _measurements(stands: Ground, options: Options, screen: Screen) -> dict[str, Measurement]:
    """By name, in order; what they read is produced first."""
    prefix = os.environ.get(TOPICS, "")
    clean, dirty, short = (f"{prefix}{name}-{count}" for name, count in (("orders", options.events), ("dirty", options.events), ("short", options.rival_events)))

    def produced() -> dict[str, float]:
        for name, count in ((clean, options.events), (short, options.rival_events)):
            speed.fill(stands, name, count, screen)
        speed.fill(stands, dirty, options.events, screen, dirty=True)
        return {"events": options.events}

    found: dict[str, Measurement] = {
        "produced": produced,
        "limit": lambda: speed.limit(stands, options.events, screen),
        "drain": lambda: speed.drain(stands, clean, options.events, screen),
        "reactor": lambda: speed.reactor(stands, clean, options.events, screen),
        "dirty": lambda: speed.reactor(stands, dirty, options.events, screen, dirty=True),
    }
    if options.rivals_python is not None:
        found["hand"] = lambda: speed.rival(stands, "hand", ("bench.rivals.hand",), clean, options.events, options, screen)
        for name, command in RIVALS.items():
            found[name] = partial(speed.rival, stands, name, command, short, options.rival_events, options, screen)
    found["latency"] = lambda: latency(stands, options.seconds, screen)
    found["hop"] = lambda: hop(stands, options.hops, screen)
    found["start"] = lambda: start(stands, screen)
    found["memory"] = lambda: memory(stands, options.seconds, screen)
    return found


@app.command("growth")
def run_growth(
    events: Annotated[int, typer.Option(help="Over all topics together.")] = 200_000,
    topics: Annotated[str, typer.Option(help="Numbers of topics, by comma.")] = "1,10,100",
    scripts: Annotated[str, typer.Option(help="Numbers of scripts, by comma.")] = "1000",
    snapshots: Annotated[str, typer.Option(help="Numbers of snapshots, by comma.")] = "1,1000,10000",
    hops: Annotated[int, typer.Option(help="Of the cascade, each time.")] = 50,
    output: Annotated[Path, typer.Option(help="Where the JSON goes.")] = ROOT / "bench/results/growth.json",
) -> None:
    """What grows with topics, scripts and snapshots."""
    measured: dict[str, dict[str, float]] = {}
    with Screen() as screen, ground(ROOT / ".reactor/bench") as stands:
        for number in _numbers(topics):
            measured[f"{number} topics"] = grown.topics_many(stands, number, events, screen)
            measured[f"{number} topics"] |= {f"hop_{name}": value for name, value in grown.topics_hop(stands, number, hops, screen).items()}
        for number in _numbers(scripts):
            measured[f"{number} scripts"] = {f"hop_{name}": value for name, value in grown.scripts_hop(stands, number, hops, screen).items()}
        measured |= {name: dict(values) for name, values in grown.snapshots(stands, _numbers(snapshots), screen).items()}
    results.write(output, measured, {}, {"events": events, "hops": hops})
    results.show(measured, {})
    print(f"growth: measured={len(measured)} written={output.name}")


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


if __name__ == "__main__":
    app()
