"""Events to a Kafka topic: `ports.Publisher` over one producer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import IncompatibleBrokerVersion, KafkaError, ProducerFenced, UnknownError, UnsupportedVersionError
from aiokafka.protocol.admin import CreateTopicsRequest

from connectors.kafka import hooks, topics
from connectors.kafka.client import KafkaConnection
from connectors.publishers.cloudevents import Message, binary
from reactor.errors import Conflict, Outage

TOPIC = "reactor.asset.updated"
TOPIC_PARTITIONS = 1
"""Of a topic that we make: then readers see all events in the order of the outbox, and not only those of one asset."""
BROKER_DEFAULT = -1
"""Copies of a topic that we make: as many as the brokers say."""
REQUEST_SECONDS_MAX = 20.0
PUBLISH_SECONDS_MAX = 60.0
"""How long one call may take; what was sent by then may be sent again."""
STOP_SECONDS_MAX = 5.0
CREATED, EXISTS = 0, 36

log = logging.getLogger(__name__)


class Guarantee(Enum):
    """What the broker keeps for us, best first: one producer at a time and all or none; no repeats within a life; neither."""

    TRANSACTIONAL = "transactional"
    IDEMPOTENT = "idempotent"
    ACKNOWLEDGED = "acknowledged"


NOT_OFFERED = (UnknownError, UnsupportedVersionError, IncompatibleBrokerVersion)
"""How a broker answers that has no transactions, or no idempotent producers."""


class KafkaPublisher:
    """Publishes CloudEvents in binary mode, at least once, first appearances in order.

    One transaction a call, under a `transactional.id` made of `name`: a publisher that slept and wakes after another took its lease over is
    fenced by the broker. `best`: what is tried first; a broker that is known to have less is not asked for more. The name must therefore be one publisher's alone in the whole cluster. A broker without transactions gets each
    event after it has acknowledged the one before, from an idempotent producer if it knows them. `acks=all` in every case.
    """

    def __init__(self, name: str, connection: KafkaConnection, *, topic: str = TOPIC, best: Guarantee = Guarantee.TRANSACTIONAL) -> None:
        self._transactional_id, self._connection, self._topic = f"reactor-publisher-{name}", connection, topic
        self._best = self._guarantee = best
        self._producer: AIOKafkaProducer | None = None
        self._one_at_a_time = asyncio.Lock()

    async def publish(self, events: Sequence[Mapping[str, object]]) -> None:
        """Returns when all are acknowledged. Raises `Outage`, and `Conflict` when another publisher of this name has taken over.

        After either, and after a cancel, it is not known which of them arrived; the next call connects anew (and takes over in turn).
        """
        messages = [binary(event) for event in events]
        if not messages:
            return
        async with self._one_at_a_time:
            try:
                async with asyncio.timeout(PUBLISH_SECONDS_MAX):
                    await self._send(await self._started(), messages)
            except ProducerFenced as error:
                await self._stop()
                raise Conflict(f"Another publisher with the id {self._transactional_id} has taken over the topic {self._topic}.") from error
            except (KafkaError, OSError, TimeoutError) as error:
                await self._stop()
                raise self._connection.failure(error) from error
            except BaseException as error:
                await self._stop()
                if isinstance(error, asyncio.CancelledError) and not hooks.asked_to_stop():
                    raise hooks.given_up() from error
                raise

    async def close(self) -> None:
        """Release connections."""
        async with self._one_at_a_time:
            await self._stop()

    async def _send(self, producer: AIOKafkaProducer, messages: Sequence[Message]) -> None:
        """A failed transaction is not aborted here: the brokers may be away. The next start under the same id aborts it."""
        if self._guarantee is not Guarantee.TRANSACTIONAL:
            for message in messages:  # else the second could arrive although the first did not
                await producer.send_and_wait(self._topic, message.value, message.key, headers=message.headers)
            return
        await producer.begin_transaction()
        sent = [await producer.send(self._topic, message.value, message.key, headers=message.headers) for message in messages]
        await asyncio.gather(*sent)
        await producer.commit_transaction()

    async def _started(self) -> AIOKafkaProducer:
        """The producer, started with the best that the broker offers."""
        if self._producer is not None:
            return self._producer
        guarantees = list(Guarantee)
        for guarantee in guarantees[guarantees.index(self._best) : -1]:
            try:
                return await self._start(guarantee)
            except NOT_OFFERED as error:
                log.info("%s offers no %s producer: %s", self._connection.bootstrap_servers, guarantee.value, error)
        return await self._start(Guarantee.ACKNOWLEDGED)

    async def _start(self, guarantee: Guarantee) -> AIOKafkaProducer:
        options: Mapping[Guarantee, dict[str, Any]] = {
            Guarantee.TRANSACTIONAL: {"transactional_id": self._transactional_id},
            Guarantee.IDEMPOTENT: {"enable_idempotence": True},
            Guarantee.ACKNOWLEDGED: {},
        }
        request_timeout_ms = int(REQUEST_SECONDS_MAX * 1000)
        producer = AIOKafkaProducer(**self._connection.options(), **options[guarantee], acks="all", request_timeout_ms=request_timeout_ms)
        hooks.prepare(producer.client)
        try:
            await producer.start()
            await self._ensure_topic(producer.client)
        except BaseException:
            await hooks.stop_producer(producer, STOP_SECONDS_MAX)
            raise
        self._producer, self._guarantee = producer, guarantee
        return producer

    async def _ensure_topic(self, client: AIOKafkaClient) -> None:
        """Make the topic if it is absent. Raises `Outage`: the brokers do not let us."""
        found = await topics.describe(client, [self._topic])
        if self._topic in found.ids:
            return
        made: list[Any] = [(self._topic, TOPIC_PARTITIONS, BROKER_DEFAULT, [], [])]
        response = await client.send(found.controller, CreateTopicsRequest(made, int(REQUEST_SECONDS_MAX * 1000), False))
        for _, error_code, message in response.topic_errors:
            if error_code not in {CREATED, EXISTS}:
                raise Outage(
                    f"Kafka cluster {self._connection.cluster} does not let us make the topic {self._topic}: {message or error_code}.",
                    hint="Make it by hand (one partition keeps all events in order), or give the user the right to.",
                )
        log.info("made the topic %s with %d partition", self._topic, TOPIC_PARTITIONS)

    async def _stop(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            await hooks.stop_producer(producer, STOP_SECONDS_MAX)
