"""The Kafka source: `ports.Source` over one cluster and one group."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import anyio

from connectors.kafka import hooks
from connectors.kafka.client import KafkaConnection
from connectors.kafka.logs import Logs
from connectors.kafka.membership import Group, Membership
from connectors.kafka.readers import Readers
from reactor.domain.spans import SourcePartition
from reactor.errors import Outage, UsageError
from reactor.ports import Clock, Intake, LogBounds, RawSpan

BACKOFF_SECONDS_MIN = 0.5
BACKOFF_SECONDS_MAX = 30.0
"""Between two attempts to connect; each waits twice as long as the one before, with jitter."""

log = logging.getLogger(__name__)


class KafkaSource:
    """A member of a consumer group that reads topics of one cluster into spans. See the package docstring."""

    def __init__(
        self,
        connection: KafkaConnection,
        group_id: str,
        topics: Collection[str],
        *,
        clock: Clock,
        replica_id: str | None = None,
        columns: bool = True,
    ) -> None:
        if not topics:
            raise UsageError(f"Kafka cluster {connection.cluster}: no topic to read.")
        self._connection, self._clock, self._columns = connection, clock, columns
        self._group = Group(group_id, frozenset(topics), replica_id)
        self._logs = Logs(connection)
        self._readers = Readers(connection, self._logs, clock, columns=columns)
        self._membership: Membership | None = None
        self._reached = False
        self._trouble = ""

    @property
    def reached(self) -> bool:
        """Whether the cluster has answered at least once."""
        return self._reached

    @property
    def trouble(self) -> str:
        """Why it cannot read now, and what to do; empty: it can."""
        return self._trouble or (self._membership.trouble if self._membership else "")

    async def subscribe(self, topics: Collection[str]) -> None:
        """See `Source.subscribe`. A member goes on in its group; who is not in it now joins with these topics."""
        self._group = replace(self._group, topics=frozenset(topics))
        if self._membership is not None:
            await self._membership.subscribe(self._group)

    async def run(self, intake: Intake) -> None:
        """See `Source.run`."""
        backoff_seconds = BACKOFF_SECONDS_MIN
        try:
            while True:
                started_at = self._clock.now()
                await self._live(intake)
                if self._clock.now() - started_at > BACKOFF_SECONDS_MAX:
                    backoff_seconds = BACKOFF_SECONDS_MIN
                await asyncio.sleep(backoff_seconds * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
                backoff_seconds = min(2 * backoff_seconds, BACKOFF_SECONDS_MAX)
        finally:
            with anyio.CancelScope(shield=True):
                await self.close()

    async def close(self) -> None:
        """Release what `read` and `bounds` have opened; `run` does so by itself when it ends."""
        await self._readers.close()
        await self._logs.close()

    async def _live(self, intake: Intake) -> None:
        """One membership, from joining to the error that ends it."""
        membership = Membership(self._connection, self._group, self._logs, self._readers, intake, self._clock, columns=self._columns)
        tell = False
        try:
            await membership.join()
            self._membership, self._reached, self._trouble = membership, True, ""
            if membership.group != self._group:
                await membership.subscribe(self._group)
            await membership.read()
        except Outage as error:
            tell = True
            self._say_away(error)
        except asyncio.CancelledError:
            if hooks.asked_to_stop():
                raise
            tell = True
            self._say_away(hooks.given_up())
        finally:
            self._membership = None
            with anyio.CancelScope(shield=True):  # a member that is cancelled and does not leave costs the others a session
                await membership.leave(tell=tell)

    def _say_away(self, error: Outage) -> None:
        self._trouble = str(error)
        log.warning("source away: %s", error, extra={"event": "source_away", "source": f"kafka://{self._connection.cluster}"})

    def pause(self, partitions: Collection[SourcePartition]) -> None:
        """See `Source.pause`."""
        if self._membership is not None:
            self._membership.pause(partitions)

    def resume(self, partitions: Collection[SourcePartition]) -> None:
        """See `Source.resume`."""
        if self._membership is not None:
            self._membership.resume(partitions)

    async def read(self, partition: SourcePartition, lo: int, hi: int, size_bytes_max: int) -> Sequence[RawSpan]:
        """See `Source.read`."""
        await self._readers.close_idle()
        return await self._readers.read(self._connection.partition(partition), lo, hi, size_bytes_max)

    async def bounds(self, partitions: Collection[SourcePartition]) -> Mapping[SourcePartition, LogBounds]:
        """See `Source.bounds`."""
        report = await self._logs.report([self._connection.partition(partition) for partition in partitions])
        return {self._connection.source(*partition): bounds for partition, bounds in report.bounds.items()}

    async def offset_at(self, partition: SourcePartition, timestamp_ms: int, bounds: LogBounds) -> int:
        """See `Source.offset_at`."""
        offset = await self._logs.offset_at(self._connection.partition(partition), timestamp_ms)
        return bounds.end if offset is None else offset

    async def commit(self, offsets: Mapping[SourcePartition, int]) -> None:
        """See `Source.commit`."""
        if self._membership is not None:
            await self._membership.commit({self._connection.partition(partition): offset for partition, offset in offsets.items()})
