"""One life of the group's consumer: from joining to the error, or the end, that closes it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from connectors.kafka import hooks
from connectors.kafka.client import KafkaConnection
from connectors.kafka.logs import Logs
from connectors.kafka.reader import OutOfLog, SpanReader
from connectors.kafka.readers import Readers
from reactor.domain.spans import SourcePartition
from reactor.errors import Outage, Retryable
from reactor.ports import Clock, Intake, LogBounds, RawSpan

SESSION_SECONDS = 10.0
"""A replica that is silent for so long loses what it was assigned."""
REBALANCE_SECONDS = 30.0
"""What a rebalance waits for each member: its running runs get 10 s of it."""
REVOKE_SECONDS_MAX = 15.0
"""The intake lets go within 10 s; a stuck one must not cost the membership."""
LOOK_SECONDS = 10.0
"""How often the logs are asked for their ends and ids, and the intake about what is halted."""
LOOK_AGAIN_SECONDS = 0.5
"""How soon that happens again while something waits for the answer."""
STALLED_SECONDS = 60.0
"""Lag without progress, or no answer of the cluster, for so long: connect anew."""
COMMIT_SECONDS_MAX = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Group:
    """Who reads what: `replica_id` makes the membership static (it outlives a restart; a clean stop costs a session)."""

    group_id: str
    topics: frozenset[str]
    replica_id: str | None = None


@dataclass(slots=True)
class _Feed:
    """One assigned source partition. Not `asked`: the intake does not know of it yet. Asked and not started: halted."""

    source: SourcePartition
    asked: bool = False
    topic_id: str | None = None
    paused: bool = False
    moved_at: float = 0.0


@dataclass(slots=True)
class Membership(ConsumerRebalanceListener):
    """Joins the group, reads what it is assigned, and hands it over. Calls of the intake never overlap."""

    connection: KafkaConnection
    group: Group
    logs: Logs
    readers: Readers
    intake: Intake
    clock: Clock
    columns: bool
    trouble: str = ""
    """What keeps it from reading everything, in words; empty: nothing does."""
    _reader: SpanReader = field(init=False)
    _assignor: type[StickyPartitionAssignor] = field(init=False)
    _feeds: dict[TopicPartition, _Feed] = field(default_factory=dict)
    _committable: frozenset[TopicPartition] = frozenset()
    _handing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _look_now: asyncio.Event = field(default_factory=asyncio.Event)
    _keeper: asyncio.Task[None] | None = None
    _failure: Exception | None = None
    _joined_again: bool = False
    _answered_at: float = 0.0

    def __post_init__(self) -> None:
        """The sticky assignor keeps what it remembers in its class, so each consumer gets a class of its own."""
        self._answered_at, self._assignor = self.clock.now(), type("Sticky", (StickyPartitionAssignor,), {})
        self._reader = SpanReader(
            self.connection,
            columns=self.columns,
            gathers=True,
            group_id=self.group.group_id,
            group_instance_id=self.group.replica_id,
            session_timeout_ms=int(SESSION_SECONDS * 1000),
            rebalance_timeout_ms=int(REBALANCE_SECONDS * 1000),
            partition_assignment_strategy=(self._assignor,),
        )

    async def join(self) -> None:
        """Connect and subscribe. Raises `Outage`."""
        await self._reader.open()
        self._reader.consumer.subscribe(topics=sorted(self.group.topics), listener=self)

    async def subscribe(self, group: Group) -> None:
        """Read the topics of this group, which is otherwise ours: a rebalance, as for any other reason, but that we have let go before it."""
        await self._let_go()
        self.group = group
        self._reader.consumer.subscribe(topics=sorted(group.topics), listener=self)

    async def read(self) -> None:
        """Read until something fails. Raises `Outage`, and whatever the intake raises."""
        while True:
            if self._failure is not None:
                raise self._failure
            if self._keeper is not None and self._keeper.done():
                self._keeper.result()
            try:
                fetched = await self._reader.fetch()
            except OutOfLog as gone:
                self._reader.stop(gone.partition)
                self._look_now.set()
                continue
            for partition, fetch in fetched:
                await self._reader.hand_over(partition, fetch, self._offer)

    async def leave(self, *, tell: bool) -> None:
        """Disconnect; `tell` the intake first that everything is revoked (where it cannot say so to others, their tokens do)."""
        try:
            if tell:
                with contextlib.suppress(Retryable):
                    await self._let_go()
        finally:
            await self._stop_keeper()
            await self._reader.close()

    async def _offer(self, partition: TopicPartition, span: RawSpan) -> bool:
        async with self._handing:
            feed = self._feeds.get(partition)
            if feed is None or feed.paused or self._reader.next.get(partition) != span.lo:
                return False
            await self.intake.offer(span)
            feed.moved_at = self.clock.now()
            return True

    # ------------------------------------------------------------------------------------------------ what the group says

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Nothing is read before the intake has said from where: the group's own offset is a courtesy to others.

        The assignor is told the generation, which aiokafka forgets to do: of two members with one claim the later one counts, and a broker that gives
        a member who joins with nothing new its old assignment again (the embedded one) sees something new.
        """
        consumer = self._reader.consumer
        self._assignor.on_generation_assignment(hooks.generation_of(consumer))
        for partition in assigned:
            consumer.pause(partition)
            consumer.seek(partition, 0)  # no look-up of the group's offset
        self._feeds = {partition: _Feed(self.connection.source(*partition)) for partition in assigned}
        self._committable = frozenset(assigned)
        self._look_now.set()
        self._keeper = asyncio.create_task(self._keep())

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:  # noqa: ARG002 - eager: all that we have
        """What a listener raises is only logged by aiokafka, so it is kept for `read`."""
        try:
            await self._let_go()
        except Exception as error:  # noqa: BLE001 - raised again in `read`
            self._failure = error

    async def _let_go(self) -> None:
        await self._stop_keeper()
        async with self._handing:
            feeds, self._feeds = self._feeds, {}
            known = [feed.source for feed in feeds.values() if feed.asked]
            self._reader.next.clear()
            try:
                if known:
                    async with asyncio.timeout(REVOKE_SECONDS_MAX):
                        await self.intake.revoked(known)
            except TimeoutError:
                log.warning("the intake did not let go of %d source partitions within %.0f s", len(known), REVOKE_SECONDS_MAX)
            finally:
                self._committable = frozenset()
        await self.readers.close_idle(feeds)

    async def _stop_keeper(self) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.wait([keeper])
            if not keeper.cancelled() and isinstance(failure := keeper.exception(), Exception):
                self._failure = self._failure or failure

    # ------------------------------------------------------------------------------------------------ what the logs say

    async def _keep(self) -> None:
        """Look at the logs as long as this assignment lasts. Raises `Outage` when the consumer has to connect anew."""
        while True:
            self._look_now.clear()
            soon = True
            try:
                bounds = await self._ask_logs()
                await self._start_new(bounds)
                await self.readers.close_idle()
                for partition, feed in self._feeds.items():
                    if feed.asked and partition in bounds:
                        await self._compare(partition, feed, bounds[partition])
            except Retryable as error:
                self.trouble = str(error)
                if self.clock.now() - self._answered_at > STALLED_SECONDS:
                    raise
            else:
                self._check_progress(bounds)
                soon = any(not feed.asked for feed in self._feeds.values())
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN_SECONDS if soon else LOOK_SECONDS):
                    await self._look_now.wait()

    async def _ask_logs(self) -> Mapping[TopicPartition, LogBounds]:
        report = await self.logs.report(self._feeds, self.group.topics)
        self._answered_at = self.clock.now()
        consumer = self._reader.consumer
        if any(consumer.partitions_for_topic(topic) is None for topic in self.group.topics - report.absent):
            hooks.client_of(consumer).force_metadata_update()  # made a moment ago: sooner than by the next turn of the clock
        self._join_again_for(self.group.topics - report.absent)
        absent = ", ".join(sorted(report.absent))
        trouble = f"Kafka cluster {self.connection.cluster} has no topic {absent} yet; waiting for it." if absent else ""
        if trouble and trouble != self.trouble:
            log.warning(trouble, extra={"event": "source_away", "source": f"kafka://{self.connection.cluster}"})
        self.trouble = trouble
        return report.bounds

    def _join_again_for(self, topics: frozenset[str]) -> None:
        """A static member that comes back is given what it had, whatever its topics are now; who joins a second time sets off a rebalance."""
        without = topics - {partition.topic for partition in self._feeds}
        if without and self.group.replica_id is not None and not self._joined_again:
            self._joined_again = True
            self._reader.consumer.subscribe(topics=sorted(self.group.topics), listener=self)

    async def _start_new(self, bounds: Mapping[TopicPartition, LogBounds]) -> None:
        """Tell the intake of what was assigned and is there; a topic that is being deleted or made is asked for again."""
        new = {partition: feed for partition, feed in self._feeds.items() if not feed.asked and partition in bounds}
        if not new:
            return
        async with self._handing:
            answer = await self.intake.assigned({feed.source: bounds[partition] for partition, feed in new.items()})
            for partition, feed in new.items():
                feed.asked, feed.topic_id = True, bounds[partition].topic_id
                self._go_on(partition, feed, answer.get(feed.source))

    async def _compare(self, partition: TopicPartition, feed: _Feed, bounds: LogBounds) -> None:
        """Another log under the same name, or a source partition that is halted: the intake decides."""
        if partition in self._reader.next and bounds.topic_id == feed.topic_id:
            return
        self._reader.stop(partition)
        async with self._handing:
            offset = await self.intake.out_of_range(feed.source, bounds)
            feed.topic_id = bounds.topic_id
            self._go_on(partition, feed, offset)

    def _check_progress(self, bounds: Mapping[TopicPartition, LogBounds]) -> None:
        """Raises `Outage`: a source partition lags and nothing comes, so the consumer has to connect anew."""
        for partition, offset in self._reader.next.items():
            feed, lag = self._feeds[partition], bounds[partition].end - offset if partition in bounds else 0
            if lag > 0 and not feed.paused and self.clock.now() - feed.moved_at > STALLED_SECONDS:
                raise Outage(
                    f"{feed.source} is stalled: {lag} offsets behind, and nothing came for {STALLED_SECONDS:.0f} s.",
                    hint="The consumer connects anew by itself; if this repeats, look at the leader of that partition.",
                )

    def _go_on(self, partition: TopicPartition, feed: _Feed, offset: int | None) -> None:
        if offset is None:
            return
        self._reader.start(partition, offset)
        feed.moved_at = self.clock.now()
        if not feed.paused:
            self._reader.release(partition)

    # ------------------------------------------------------------------------------------------------ what the runtime says

    def pause(self, partitions: Collection[SourcePartition]) -> None:
        """See `Source.pause`."""
        for partition, feed in self._feeds.items():
            if feed.source in partitions:
                feed.paused = True
                self._reader.hold(partition)

    def resume(self, partitions: Collection[SourcePartition]) -> None:
        """See `Source.resume`."""
        for partition, feed in self._feeds.items():
            if feed.source in partitions:
                feed.paused, feed.moved_at = False, self.clock.now()
                if partition in self._reader.next:
                    self._reader.release(partition)

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """See `Source.commit`."""
        ours = {partition: offset for partition, offset in offsets.items() if partition in self._committable}
        if ours:
            try:
                async with asyncio.timeout(COMMIT_SECONDS_MAX):
                    await self._reader.consumer.commit(ours)
            except (KafkaError, TimeoutError) as error:
                log.debug("group offset not committed: %s", error)
