"""`reactor positions` on a real log, and without one."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from reactor.domain.spans import Consumer, Position, PositionClaim, PositionKey, SourcePartition, Token
from reactor.opening import opened_state
from reactor.ports import NewPosition
from reactor.project import open_project
from reactor.state import PostgresState
from tests.cli.conftest import READS_BATCH, Reactor, project_at

ORDERS = "ducklake://main/orders"
Work = Callable[[PostgresState], Any]


def in_state(folder: Path, work: Work) -> Any:
    """Do something with the state, migrated."""
    async def opened() -> Any:
        async with opened_state(open_project(folder, flags={}, environ={}).project) as state:
            return await work(state)

    return asyncio.run(opened())


def positions(folder: Path) -> Mapping[PositionKey, Position]:
    found: Mapping[PositionKey, Position] = in_state(folder, lambda state: state.positions())
    return found


def start(*positions: tuple[str, str, str, int], topic_id: str | None = None) -> Work:
    """(consumer, source, source partition, floor) of new positions."""
    async def work(state: PostgresState) -> None:
        await state.insert_positions([
            NewPosition(PositionKey(Consumer(consumer), SourcePartition(source, number)), floor, "null", "earliest", topic_id)
            for consumer, source, number, floor in positions])

    return work


def block(key: PositionKey, asset_partition: str, offset: int) -> Work:
    """One slice stays where it is."""
    async def work(state: PostgresState) -> None:
        stored = (await state.load([key]))[key]
        _, refused = await state.settle([PositionClaim(key, stored.token, stored.floor, {asset_partition: offset})])
        assert not refused

    return work


async def fill(bootstrap_servers: str, topic: str, records: Sequence[int]) -> None:
    """A topic with so many records in each partition."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    await admin.create_topics([NewTopic(topic, len(records), 1)])
    await admin.close()
    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
        for number, count in enumerate(records):
            for _ in range(count):
                await producer.send_and_wait(topic, b"{}", partition=number)


@pytest.fixture
def filled(tmp_path: Path, database: str, kafka_bootstrap: str, topic: Callable[[str], str]) -> tuple[Path, str]:
    """A project whose topic holds 5 and 3 records, and the topic's name."""
    name = topic("orders")
    asyncio.run(fill(kafka_bootstrap, name, [5, 3]))
    folder = project_at(tmp_path / "project", database, {"orders.sql": READS_BATCH.replace("kafka://orders", f"kafka://{name}")})
    (folder / "reactor.toml").write_text(f'[state]\nurl = "{database}"\n[kafka.main]\nbootstrap_servers = "{kafka_bootstrap}"\n')
    return folder, name


def test_lag_and_blocked_slices_and_moves(reactor: Reactor, filled: tuple[Path, str]) -> None:
    folder, topic = filled
    source = f"kafka://main/{topic}"
    keys = [PositionKey(Consumer(ORDERS), SourcePartition(source, number)) for number in ("0", "1")]
    in_state(folder, start((ORDERS, source, "0", 4), (ORDERS, source, "1", 1), (ORDERS, "inbox://prod", "", 0)))
    in_state(folder, block(keys[0], "2026-06-19", 2))
    lines = reactor("positions", "list", ORDERS, "--json", "--project", folder).data["positions"]
    assert [(p["source"], p["source_partition"], p["floor"], p["low"], p["end"], p["lag_events"], p["blocked"]) for p in lines] == [
        ("inbox://prod", "", 0, 0, 0, 0, []), (source, "0", 4, 2, 5, 3, ["2026-06-19"]), (source, "1", 1, 1, 3, 2, [])]
    assert "2026-06-19" in reactor("positions", "list", "--project", folder).out

    reset = ["positions", "reset", "ducklake://main/ORDERS", "--reason", "again", "--project", folder]
    for wrong, said in (
        (["--to", "earliest"], "--confirm"), (["--to", "earliest", "--confirm", "ducklake://main/other"], "--confirm"),
        (["--to", "soon", "--confirm", ORDERS], "no offset"), (["--to", "4", "--confirm", ORDERS], "holds 0 to 3"),
        (["--to", "-1", "--confirm", ORDERS], "offset"),
    ):  # fmt: skip
        refused = reactor(*reset, *wrong)
        assert (refused.exit_code, said in refused.err) == (2, True)
    assert [p.floor for key, p in positions(folder).items() if key in keys] == [4, 1], "a refused move moves nothing"

    moved = reactor(*reset, "--to", "2", "--source-partition", "0", "--source", f"kafka://{topic}", "--confirm", ORDERS, "--json").data
    assert moved == [{"consumer": ORDERS, "source": source, "source_partition": "0", "was": 4, "floor": 2}]
    stored = positions(folder)
    assert (stored[keys[0]].floor, stored[keys[0]].fences, stored[keys[1]].floor) == (2, {}, 1)
    assert stored[keys[0]].topic_id is not None, "the topic that it was moved in is the one that it is bound to"
    assert [m["floor"] for m in reactor(*reset, "--to", "latest", "--confirm", ORDERS, "--json").data] == [5, 3]
    assert [m["floor"] for m in reactor(*reset, "--to", "earliest", "--confirm", ORDERS, "--json").data] == [0, 0]
    nothing = reactor(*reset, "--to", "earliest", "--source-partition", "7", "--confirm", ORDERS)
    assert (nothing.exit_code, "positions list" in nothing.err) == (1, True)


def test_a_position_beyond_its_log_says_what_to_do(reactor: Reactor, tmp_path: Path, database: str, embedded_broker: str) -> None:
    name = f"beyond-{uuid4().hex[:8]}"
    asyncio.run(fill(embedded_broker, name, [2]))
    folder = project_at(tmp_path / "project", database, {"orders.sql": READS_BATCH.replace("kafka://orders", f"kafka://{name}")})
    settings = folder / "reactor.toml"
    settings.write_text(settings.read_text().replace("127.0.0.1:1", embedded_broker))
    in_state(folder, start((ORDERS, f"kafka://main/{name}", "0", 9), (ORDERS, "outbox://prod", "", 0)))
    beyond, own = reactor("positions", "list", ORDERS, "--json", "--project", folder).data["positions"]
    assert own["halted"] is None
    assert "position 9 is beyond the log end" in beyond["halted"]
    assert f"positions reset {ORDERS}" in beyond["halted"]
    assert "halted: " in reactor("positions", "list", "--project", folder).out
    reasons = {r["word"]: r for r in reactor("explain", ORDERS, "--json", "--project", folder).data["reasons"]}
    assert reasons["halted"]["about"] == f"kafka://main/{name}/0"


def test_the_outbox_is_a_source_like_any_other(reactor: Reactor, tmp_path: Path, database: str) -> None:
    folder = project_at(tmp_path / "project", database, {"tell.py": "# on ducklake://main/orders\n"})
    in_state(folder, start(("tell.py", "outbox://prod", "", 0), ("tell.py", "inbox://prod", "", 0)))
    reset = ["positions", "reset", "tell.py", "--to", "latest", "--reason", "x", "--confirm", "tell.py", "--project", folder, "--json"]
    assert reactor(*reset).data[0]["source"] == "outbox://prod"
    assert reactor(*reset, "--source", "outbox").data[0]["source"] == "outbox://prod"
    none = reactor("positions", "reset", "other.py", "--to", "latest", "--reason", "x", "--confirm", "other.py", "--project", folder)
    assert (none.exit_code, "no position yet" in none.err) == (1, True)


def test_who_reads_several_sources_has_to_name_one(reactor: Reactor, tmp_path: Path, database: str) -> None:
    folder = project_at(tmp_path / "project", database, {})
    in_state(folder, start((ORDERS, "kafka://main/a", "0", 0), (ORDERS, "kafka://main/b", "0", 0)))
    said = reactor("positions", "reset", ORDERS, "--to", "latest", "--reason", "x", "--confirm", ORDERS, "--project", folder)
    assert (said.exit_code, "--source" in said.err) == (2, True)


def test_a_broker_that_is_away_costs_the_lag_but_not_the_list(reactor: Reactor, tmp_path: Path, database: str) -> None:
    folder = project_at(tmp_path / "project", database, {})
    in_state(folder, start((ORDERS, "kafka://main/a", "0", 7), (ORDERS, "kafka://gone/b", "0", 1)))
    answer = reactor("positions", "list", "--json", "--project", folder).answer
    assert [(p["floor"], p["lag_events"]) for p in answer["data"]["positions"]] == [(1, None), (7, None)]
    assert len(answer["warnings"]) == 2
    away = reactor("positions", "reset", ORDERS, "--source", "kafka://main/a", "--to", "latest", "--reason", "x", "--confirm", ORDERS, "--project", folder)
    assert away.exit_code == 3


def test_a_gap_is_shown_until_it_is_acknowledged(reactor: Reactor, tmp_path: Path, database: str) -> None:
    folder = project_at(tmp_path / "project", database, {})
    key = PositionKey(Consumer(ORDERS), SourcePartition("kafka://main/a", "0"))
    in_state(folder, lambda state: state.record_gap(key, 3, 9, "retention"))
    gaps = reactor("positions", "list", "--json", "--project", folder).data["gaps"]
    assert [(g["consumer"], g["lo"], g["hi"]) for g in gaps] == [(ORDERS, 3, 9)]
    assert "retention" in reactor("positions", "list", "--project", folder).out
    assert reactor("positions", "acknowledge", "--project", folder).exit_code == 2
    assert reactor("positions", "acknowledge", "ducklake://main/other", "--json", "--project", folder).data == {"acknowledged": 0}
    assert reactor("positions", "acknowledge", "--all", "--json", "--project", folder).data == {"acknowledged": 1}
    assert reactor("positions", "list", "--json", "--project", folder).data["gaps"] == []


def test_tokens_are_new_after_a_move(reactor: Reactor, tmp_path: Path, database: str) -> None:
    """A replica that believed the old position writes nothing."""
    folder = project_at(tmp_path / "project", database, {"tell.py": "# on ducklake://main/orders\n"})
    in_state(folder, start(("tell.py", "outbox://prod", "", 0)))
    (before,) = positions(folder).values()
    assert reactor("positions", "reset", "tell.py", "--to", "0", "--reason", "x", "--confirm", "tell.py", "--project", folder).exit_code == 0
    (after,) = positions(folder).values()
    assert after.token not in {before.token, Token(uuid4())}
