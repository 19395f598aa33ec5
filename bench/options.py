"""How much is measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Options:
    """`events`: that Reactor, the loop by hand and the limits take; `rival_events`: that Bytewax and Quix Streams take.

    `seconds`: how long the latency, the sustained load and the time without a lake last, each. `rivals_python`: the interpreter that has
    the rivals, None: they are left out. `folder`: of logs and everything temporary.
    """

    folder: Path
    events: int = 1_000_000
    rival_events: int = 200_000
    seconds: float = 60.0
    hops: int = 200
    rivals_python: Path | None = None
