"""The demo's project, without running it: what `check` says of it, and what its shop sends."""

import importlib.util
import json
import sys
from collections import Counter
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from reactor.domain.assets import ProjectNames
from reactor.domain.project import check_project
from reactor.settings import load

ORDERS = Path(__file__).parents[2] / "examples" / "orders"
STARTED_AT = 1_781_950_000.5


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("orders_generator", ORDERS / "generator.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def records(generator: ModuleType, orders: int, seed: int = 7, started_at: float = STARTED_AT, rate: float = 30.0) -> list[Any]:
    return [record for of_one in islice(generator.Shop(seed, started_at, rate), orders) for record in of_one]


def test_its_five_scripts_are_of_three_kinds_and_nothing_is_wrong_with_them() -> None:
    loaded = load(ORDERS, flags={}, environ={})
    assert loaded.warnings == ()
    files = {path.relative_to(ORDERS).as_posix(): path.read_bytes() for folder in ("raw", "marts", "export") for path in (ORDERS / folder).iterdir()}
    files["generator.py"] = (ORDERS / "generator.py").read_bytes()
    checked = check_project(files, ProjectNames(clusters=tuple(loaded.settings.kafka)))
    assert (checked.diagnostics, checked.refused, checked.inactive) == ((), {}, {})
    assert Counter(script.language for script in checked.scripts.values()) == {"sql": 3, "python": 1, "shell": 1}
    managed = [script.managed.strategy for script in checked.scripts.values() if script.managed]
    assert sorted(managed) == ["append", "merge", "replace"]


def test_the_same_seed_start_and_rate_make_the_same_records(generator: ModuleType) -> None:
    assert records(generator, 500) == records(generator, 500)
    assert records(generator, 500) != records(generator, 500, seed=8)


def test_of_two_hundred_orders_each_kind_has_its_share(generator: ModuleType) -> None:
    kinds = Counter(record.kind for record in records(generator, 400))
    del kinds["customer"]
    assert kinds == {"order": 388, "late": 12, "duplicate": 8, "malformed": 2}


def test_numbers_go_on_at_the_next_start(generator: ModuleType) -> None:
    def numbers(started_at: float) -> set[int]:
        sent = records(generator, 3000, started_at=started_at, rate=1000.0)
        return {json.loads(record.value)["order_id"] for record in sent if record.kind == "order"}

    assert not numbers(STARTED_AT) & numbers(STARTED_AT + 4.0)


def test_customers_of_orders_have_signed_up_and_money_has_two_digits(generator: ModuleType) -> None:
    known: dict[int, str] = {}
    for record in records(generator, 2000):
        if record.kind == "malformed":
            continue
        fields = json.loads(record.value, parse_float=str)
        if record.topic == "customers":
            known[fields["customer_id"]] = fields["country"]
        else:
            assert known[fields["customer_id"]] == fields["country"]
            assert len(fields["amount"].partition(".")[2]) <= 2


def test_broken_records_are_broken_in_every_way(generator: ModuleType) -> None:
    broken = {record.value for record in records(generator, 20_000) if record.kind == "malformed"}
    assert any(value.startswith(b"\xff") for value in broken)
    assert any(b'"twelve"' in value for value in broken)
    assert any(b"ordered_at" not in value for value in broken)
    assert any(not value.endswith(b"}") for value in broken)
