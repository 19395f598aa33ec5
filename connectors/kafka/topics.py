"""The identity of topics: a Metadata request of version 12, which aiokafka does not have (its own stop at 5, without topic ids)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any
from uuid import UUID

from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.metadata import MetadataRequest_v5
from aiokafka.protocol.types import Boolean, CompactArray, CompactString, Int16, Int32, Schema, TaggedFields

NO_ERROR = 0


class Uuid(AbstractType[UUID]):
    """16 bytes."""

    @classmethod
    def encode(cls, value: UUID) -> bytes:
        """Big-endian."""
        return value.bytes

    @classmethod
    def decode(cls, data: BytesIO) -> UUID:
        """Raises `ValueError` when fewer than 16 bytes are left."""
        return UUID(bytes=data.read(16))


NO_ID = UUID(int=0)
"""What a broker says of a topic that has no id (made before Kafka 2.8), and what we say when we ask by name."""


class MetadataResponse_v12(Response):  # noqa: N801 - the names of aiokafka's own
    """Brokers, cluster id, and the topics asked for with their ids."""

    API_KEY = 3
    API_VERSION = 12
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32),
                ("host", CompactString("utf-8")),
                ("port", Int32),
                ("rack", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_id", CompactString("utf-8")),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("topic", CompactString("utf-8")),
                ("topic_id", Uuid),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline_replicas", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class MetadataRequest_v12(RequestStruct):  # noqa: N801 - the names of aiokafka's own
    """Topics by name; nothing is created by asking."""

    API_KEY = 3
    API_VERSION = 12
    RESPONSE_TYPE = MetadataResponse_v12
    FLEXIBLE_VERSION = True
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_id", Uuid), ("topic", CompactString("utf-8")), ("tags", TaggedFields))),
        ("allow_auto_topic_creation", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class TopicsRequest(Request[MetadataRequest_v5 | MetadataRequest_v12]):
    """The newest of the two that the broker knows; version 5 has no topic ids."""

    API_KEY = 3

    def __init__(self, topics: Collection[str]) -> None:
        self._topics = topics

    def build(self, request_struct_class: type[Any]) -> Any:  # noqa: ANN401 - one of two classes of aiokafka's making
        """The request in the version that was agreed on."""
        if request_struct_class is MetadataRequest_v12:
            return MetadataRequest_v12([(NO_ID, topic, {}) for topic in self._topics], False, False, {})
        return MetadataRequest_v5(list(self._topics), False)


@dataclass(frozen=True, slots=True)
class Topics:
    """An answer: the cluster's id and controller, the id of each topic that exists (None: it has none), each partition's leader if any."""

    cluster_id: str
    controller: int
    ids: Mapping[str, str | None]
    leaders: Mapping[tuple[str, int], int]

    def identity(self, topic: str) -> str:
        """`<cluster id>/<topic id>`: what a position is bound to."""
        return f"{self.cluster_id}/{self.ids[topic] or ''}"


async def describe(client: AIOKafkaClient, topics: Collection[str]) -> Topics:
    """Ask any broker about these topics; absent ones are missing from the answer, and are not made. Raises aiokafka's errors."""
    response = await client.send(client.get_random_node(), TopicsRequest(topics))
    ids: dict[str, str | None] = {}
    leaders: dict[tuple[str, int], int] = {}
    for error_code, topic, *rest in response.topics:
        if error_code != NO_ERROR:
            continue
        has_id = response.API_VERSION == MetadataRequest_v12.API_VERSION
        ids[topic] = str(rest[0]) if has_id and rest[0] != NO_ID else None
        partitions = rest[2] if has_id else rest[1]
        leaders |= {(topic, number): leader for _, number, leader, *_ in partitions if leader >= 0}
    return Topics(str(response.cluster_id or ""), response.controller_id, ids, leaders)
