"""A table keeps the way its slices are named: a script that names them otherwise is refused as it is loaded (commit.md 5, *Edit*).

By which names a table was written stands in the positions of its consumer. While it holds no row, or once a position has switched to the
names of the script (the table was dropped, and the positions reset), nothing is in the way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Protocol

from reactor.domain.assets import LakeTable
from reactor.domain.scripts import Partitioning, Routing, Script, ScriptPath
from reactor.domain.spans import Consumer, Position, PositionKey


class Known(Protocol):
    """What of the state is asked."""

    async def positions(self, consumer: str | None = None) -> Mapping[PositionKey, Position]:
        """Stored positions."""
        ...

    async def row_counts(self, lake: str) -> Mapping[str, int]:
        """Rows of each table of a lake, by asset URI."""
        ...


async def refused_identities(state: Known, scripts: Sequence[Script]) -> Mapping[ScriptPath, str]:
    """The scripts that may not run, each with why and what to do."""
    stored: defaultdict[Consumer, list[Partitioning | None]] = defaultdict(list)
    for key, position in (await state.positions()).items():
        stored[key.consumer].append(Routing.parse(position.routing).partitioning)
    refused: dict[ScriptPath, str] = {}
    for script in scripts:
        own, others = script.header.partitioned, stored.get(Consumer(script.consumer), [])
        if script.managed is None or not others or any(_identity(other) == _identity(own) for other in others):
            continue
        asset = script.managed.asset
        if (await state.row_counts(LakeTable.parse(asset).lake)).get(asset):
            refused[script.path] = (
                f"the slices of {asset} are {_spoken(others[0])}, and the script says {_spoken(own)}: a table keeps the names of its slices. "
                f"Either rename the asset, or drop the table and read again: "
                f'reactor positions reset {asset} --to earliest --reason "…" --confirm {asset}')
    return refused


def _identity(partitioning: Partitioning | None) -> tuple[str, str, str | None] | None:
    return partitioning.identity if partitioning else None


def _spoken(partitioning: Partitioning | None) -> str:
    """As it stands in a header."""
    if partitioning is None:
        return "not `partitioned`"
    zone = f" tz={partitioning.zone}" if partitioning.zone != "UTC" else ""
    return f"`partitioned {partitioning.kind}{zone}{f' format={partitioning.format}' if partitioning.format else ''}`"
