"""Decisions: what became of an event, or of consecutive offsets of a stream, for one script and one of its asset partitions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from reactor.domain.scripts import ScriptPath
from reactor.domain.spans import Consumer, SourcePartition

DecisionOutcome = Literal["dispatched", "joined", "skipped"]


class Decision(NamedTuple):
    """`[lo, hi)` of a source partition went to a slice of the consumer (`dispatched`), waits in a join (`joined`), or starts nothing (`skipped`).

    An event has an offset of its own, records of a stream are told as the offsets that wait together. `partition`: the asset partition of the
    consumer; of a skipped event, that of the event. `asset`: what was updated, None for a stream and for a run by hand. `due_at`: POSIX seconds.
    `inputs`: how many inputs of a join are in, and how many there must be.
    """

    consumer: Consumer
    script: ScriptPath
    source_partition: SourcePartition
    lo: int
    hi: int
    partition: str
    outcome: DecisionOutcome
    reason: str = ""
    event_id: str | None = None
    asset: str | None = None
    due_at: float | None = None
    inputs: tuple[int, int] | None = None

    @property
    def key(self) -> tuple[Consumer, SourcePartition, int, str]:
        """What names it: decided again after a crash, it is the same decision."""
        return self.consumer, self.source_partition, self.lo, self.partition


class Meaning(NamedTuple):
    """A reason word in a sentence, and what to do about it."""

    sentence: str
    next_step: str


SKIP_REASONS: Final[Mapping[str, Meaning]] = MappingProxyType({
    "cycle": Meaning(
        "The script is already among those that led to this event, so running it would go round for ever.",
        "Nothing is to be done, unless the loop is not meant: `reactor graph` shows it."),
    "chain": Meaning(
        "The event is the last of a chain of 64 scripts, which is taken for a loop.",
        "Shorten the cascade, or start the rest by a schedule or by hand: `reactor run <script>`."),
    "fan_out": Meaning(
        "The event would open more than 1000 slices, or every slice of a table that is partitioned by a key.",
        "Run the slices that matter by hand: `reactor run <script> --partition <key>`."),
    "before_start": Meaning(
        "The slice lies before the `start=` of the script's `partitioned` line.",
        "Set an earlier `start=` if the slice is wanted, then run it by hand: `reactor run <script> --partition <key>`."),
    "expired": Meaning(
        "The other inputs did not arrive in time, or the event names a slice that the script's calendar does not have.",
        "Run the slice by hand if it is wanted: `reactor run <script> --partition <key>`."),
    "no_cascade": Meaning(
        "The run that made the event was started with `--no-cascade`: publishers are told, no script runs.",
        "Run the script by hand if it should follow after all: `reactor run <script>`."),
    "unchanged": Meaning(
        "The run upstream completed and changed nothing, so there is nothing new to read.",
        "Nothing is to be done; `reactor explain <the upstream asset>` says why nothing changed."),
    "overwritten": Meaning(
        "An object that was loaded already has been overwritten, and an append would have its rows twice.",
        "Write new objects, or say `overwrite=load` on the `on` line if the rows are wanted twice."),
    "muted": Meaning(
        "The body reads the asset, but a `mute` line takes away the edge.",
        "Take the `mute` line away, or name the asset by an `on` line, if it should fire the script."),
    "paused": Meaning(
        "The asset is paused.",
        "`reactor resume <asset>` lets it run again."),
})
"""Every word that a skipped event may have (conventions 11)."""

def meaning_of(reason: str) -> Meaning:
    """Of a word that a newer version has written nothing is known but the word."""
    return SKIP_REASONS.get(reason, Meaning(f"The event was skipped: {reason}.", "The documentation of the version that wrote it says more."))


ROUTER_SKIPS: Final = ("cycle", "chain", "fan_out", "before_start", "expired", "no_cascade", "unchanged", "muted")
"""Those that the router gives to an update of an asset."""
