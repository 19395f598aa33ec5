"""The position of a publisher: behind what was acknowledged, never before it, and in the database that it was read from."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.properties.replica import Replica
from tests.properties.world import World


@pytest.fixture
def world() -> World:
    """With three events in the outbox, and a receiver that is there."""
    world = World(0)
    world.away = 0.0
    world.store.completed = {UUID(int=n) for n in (101, 102, 103)}
    world.store.outbox = [f"{UUID(int=n)} a" for n in (101, 102, 103)]
    return world


def sending(world: World) -> Replica:
    """It has sent everything, and its position has not moved yet."""
    (replica,) = world.replicas
    replica.tell()
    replica.tell()
    assert (len(world.outside.heard), world.store.publisher.floor) == (3, 0)
    return replica


def test_it_moves_when_all_are_acknowledged(world: World) -> None:
    sending(world).tell()
    assert world.store.publisher.floor == 3


def test_one_that_slept_moves_nothing(world: World) -> None:
    sleeping, other = sending(world), Replica(world)
    for _ in range(3):
        other.tell()
    moved = world.store.publisher
    assert moved.floor == 3
    sleeping.tell()
    assert world.store.publisher == moved


def test_it_does_not_move_in_another_database(world: World) -> None:
    """A failover to one that has lost the last commits: the same token, and the next events get the numbers of those that are gone."""
    replica = sending(world)
    world.restores += 1
    world.store.outbox = [f"{UUID(int=101)} b", f"{UUID(int=102)} b", f"{UUID(int=103)} b"]
    replica.tell()
    assert world.store.publisher.floor == 0
    for _ in range(3):
        replica.tell()
    assert world.store.publisher.floor == 3
    assert world.outside.heard[3:] == world.store.outbox
