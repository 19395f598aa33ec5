"""What is so in the end of a flow, in the words of the cases: each field of `expect` has a look of its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reactor.domain.spans import SourcePartition
from tests.cases.comparing import Unknown, is_right, same_rows, unnamed
from tests.cases.flows import id_list, name_of, octets
from tests.harness import Product, Replica


@dataclass(frozen=True, slots=True)
class FlowFacts:
    """A product at rest. `produced_at`: POSIX seconds at which the log was written.

    A look takes what the case wants and gives what was got, in the same form; where many forms are right, what was wanted.
    """

    product: Product
    asset: str
    path: str
    produced_at: float

    async def differences(self, expect: Mapping[str, Any]) -> list[str]:
        """Every field that is not as the case says. Raises Unknown."""
        found = []
        for name, wanted in expect.items():
            look = getattr(self, f"look_at_{name.removesuffix('_between')}", None)
            if look is None:
                raise Unknown(f"runner does not know {name}")
            got = await look(wanted)
            if not is_right(name, got, wanted):
                found.append(f"{name}: got {got} wanted {wanted}")
        return found

    @property
    def table(self) -> str:
        """Its name."""
        return self.asset.rpartition("/")[2]

    @property
    def replica(self) -> Replica:
        """The only one that lives, or the one that was started last."""
        return self.product.living[-1]

    # -- rows

    async def look_at_rows(self, wanted: Any) -> Any:
        """As a set."""
        hidden = await self.product.tool.has(self.table) and "_wm_partition" in await self.product.tool.columns(self.table)
        got = await self._rows('* EXCLUDE ("_wm_partition")' if hidden else "*")
        return wanted if same_rows(got, wanted) else got

    async def look_at_ids(self, wanted: Any) -> Any:
        """Each as often as it is there."""
        got = await self._ids()
        return wanted if got == sorted(id_list(wanted)) else got

    async def look_at_ids_count(self, _: Any) -> int:
        """Rows."""
        return len(await self._ids())

    async def look_at_ids_distinct(self, _: Any) -> int:
        """Different ones."""
        return len(set(await self._ids()))

    async def look_at_rows_per_partition(self, _: Any) -> dict[str, int]:
        """By the slice whose run wrote them."""
        return {str(name): int(count or 0) for name, count in await self._rows('"_wm_partition", count(*)', "GROUP BY ALL")}

    async def look_at_headers_kept(self, _: Any) -> int:
        """As a second script has counted them."""
        return sum(int(row[0] or 0) for row in await self.product.tool.rows("SELECT headers FROM main.seen"))

    async def _rows(self, columns: str, more: str = "") -> list[list[str | None]]:
        if not await self.product.tool.has(self.table):
            return []
        return await self.product.tool.rows(f"SELECT {columns} FROM main.{self.table} {more}")

    async def _ids(self) -> list[int]:
        return sorted(int(row[0] or -1) for row in await self._rows("id"))

    # -- positions

    async def look_at_position(self, _: Any) -> dict[str, int]:
        """Of every source partition."""
        return await self.product.positions(self.asset)

    async def look_at_lag(self, _: Any) -> int:
        """Over all source partitions."""
        bounds = self.product.logs.bounds(self.product.streams.partitions(self.table))
        positions = await self.product.positions(self.asset)
        return sum(found.end - positions[name_of(partition)] for partition, found in bounds.items())

    async def look_at_lag_never_negative(self, _: Any) -> bool:
        """As it is stored, and as the metric shows it."""
        shown = [sample.value for metric in self.replica.service.telemetry.source_lag.collect() for sample in metric.samples]
        return await self.look_at_lag(None) >= 0 and min(shown, default=0) >= 0

    async def look_at_gap_reported(self, _: Any) -> dict[str, list[int]]:
        """What was lost."""
        gaps = await self.product.fetch("SELECT * FROM reactor.source_gap WHERE consumer = $1", self.asset)
        return {name_of(SourcePartition(gap["source"], gap["source_partition"])): [gap["lo"], gap["hi"]] for gap in gaps}

    async def look_at_blocked(self, wanted: Any) -> Any:
        """The only source partition that is not read."""
        halted = [name_of(key.source_partition) for key in self.replica.halted]
        return wanted if halted == [wanted] else halted

    async def look_at_visible(self, wanted: Any) -> Any:
        """Why it is not read, by sense."""
        said = " ".join(self.replica.halted.values())
        return said if not said or unnamed(wanted, said, ["position", "log end"]) else wanted

    # -- the quarantine

    async def look_at_quarantine(self, wanted: Any) -> Any:
        """Every row of it."""
        got = [
            {"source_partition": name_of(SourcePartition(row["source"] or "", row["source_partition"] or "")), "offset": int(row["offset"] or -1),
             "bytes": row["value"], "key": row["key"], "headers": row["headers"], "reason": row["reason"]}
            for row in await self.product.quarantined(self.asset)
        ]  # fmt: skip
        meant = [{**row, **{name: _hexed(name, row[name]) for name in ("key", "headers") if name in row}} for row in wanted]
        picked = [{name: row[name] for name in one} for row, one in zip(got, meant, strict=False)]
        return wanted if picked == meant and len(got) == len(meant) else got

    async def look_at_quarantine_count(self, _: Any) -> int:
        """Rows."""
        return len(await self.product.quarantined(self.asset))

    # -- runs

    async def look_at_updates(self, _: Any) -> int:
        """Asset-updated events."""
        return len(await self.product.updates(self.asset))

    async def look_at_stale_runs_committed(self, _: Any) -> int:
        """Of the replica that was the owner before."""
        return len([run for run in await self.product.runs(self.path) if run.state == "completed" and run.replica == self.product.replicas[0].holder])

    async def look_at_restarts(self, _: Any) -> int:
        """Lives after the first; a service that ends by itself has failed the case already."""
        return len(self.product.replicas) - 1

    async def look_at_snapshots_made(self, _: Any) -> int:
        """By runs."""
        return len(await self.product.tool.rows("SELECT 1 FROM lake.snapshots() WHERE contains(commit_extra_info, '\"run\"')"))

    async def look_at_freshness_recorded(self, _: Any) -> bool:
        """Whether the asset is known to be looked after."""
        return bool(await self.product.fetch("SELECT 1 FROM reactor.materialized_partition WHERE asset = $1 AND checked_at IS NOT NULL", self.asset))

    async def look_at_within_seconds_of_arrival(self, wanted: Any) -> Any:
        """Until the first run was started."""
        (row,) = await self.product.fetch("SELECT min(fired_at) AS fired_at FROM reactor.run WHERE consumer = $1", self.asset)
        return max(wanted, row["fired_at"].timestamp() - self.produced_at)


def _hexed(name: str, given: Any) -> str:
    if name == "key":
        return (octets(given) or b"").hex()
    pairs = ",".join(f'["{header}","{(octets(text) or b"").hex()}"]' for header, text in given)
    return f"[{pairs}]"
