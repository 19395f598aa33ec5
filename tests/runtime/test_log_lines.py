"""The log of a product: every word that it can say, in lines of one shape, and no value of a row (OB-7)."""

import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reactor.errors import Outage, RunFailed
from reactor.telemetry import EVENTS, JsonLines, Words
from reactor.testing import Record
from tests.harness import Ground, Product, opened_product
from tests.harness.log_lines import wrong_lines
from tests.parts.waiting import until
from tests.runtime.life import PLANTED, Life, kept

pytestmark = pytest.mark.anyio

CONVENTIONS = {
    *(f"service_{word}" for word in ("started", "ready", "draining", "stopped")),
    *(f"source_{word}" for word in ("assigned", "revoked", "paused", "resumed", "gap_found")),
    *(f"run_{word}" for word in ("started", "completed", "failed", "aborted")),
    "join_waiting", "dispatch_skipped", "commit_refused", "event_quarantined", "event_published", "schema_changed", "data_test_failed",
    "freshness_changed",
}  # fmt: skip
LATER = {"join_waiting": "DP-6", "data_test_failed": "TS-1", "freshness_changed": "OB-3"}
"""Words that nothing can say yet, with the row that brings them."""
ELSEWHERE = {
    "service_started": "tests/cli/test_nothing_told.py", "service_ready": "tests/cli/test_nothing_told.py",
    "service_stopped": "tests/cli/test_nothing_told.py", "source_paused": "below", "source_resumed": "below",
}
"""Words that this life does not say, with the test that waits for them."""


def test_the_words_of_the_conventions_are_known() -> None:
    assert CONVENTIONS - LATER.keys() <= EVENTS.keys()
    assert not LATER.keys() & EVENTS.keys()


@pytest.mark.parametrize("word", sorted(CONVENTIONS - LATER.keys() - ELSEWHERE.keys()))
async def test_it_is_said(life: Life, word: str) -> None:
    assert word in {json.loads(line)["event"] for line in life.lines}


async def test_every_line_has_the_shape(life: Life) -> None:
    assert wrong_lines(life.lines) == []


async def test_a_run_is_told_with_all_that_is_known_of_it(life: Life) -> None:
    read = [json.loads(line) for line in life.lines]
    completed = next(line for line in read if line["event"] == "run_completed" and line["asset"] == "ducklake://main/orders")
    assert completed.keys() >= {"script", "run_id", "root_run_id", "attempt", "duration_seconds"}
    failed = next(line for line in read if line["event"] == "run_failed" and line["asset"] == "ducklake://main/broken")
    assert (failed["error.type"], failed["error.message"]) == ("RunFailed", "evaluating broken.sql: Conversion error")


async def test_values_of_rows_are_told_in_the_result_of_the_run_alone(life: Life) -> None:
    assert sum(PLANTED in error for error in life.errors) >= 2, "the SELECT and the program show it"
    assert [line for line in life.lines if PLANTED in line] == []
    assert PLANTED.encode() not in life.page


@pytest.mark.parametrize("formatter", [JsonLines(), Words()], ids=["json", "text"])
@pytest.mark.parametrize("error", [
    RunFailed(f"evaluating\n{PLANTED}", hint=PLANTED), ValueError(PLANTED), KeyError(PLANTED), ExceptionGroup("several", [ValueError(PLANTED)]),
], ids=lambda error: type(error).__name__)  # fmt: skip
def test_an_error_is_told_without_what_it_quotes(formatter: logging.Formatter, error: Exception) -> None:
    record = logging.LogRecord("reactor", logging.CRITICAL, __file__, 1, "the task failed", (), (type(error), error, None))
    line = formatter.format(record)
    assert PLANTED not in line
    assert type(error).__name__ in line


@pytest.fixture
async def narrow(postgres_server: str, tmp_path: Path) -> AsyncIterator[Product]:
    """A product that keeps next to nothing in memory."""
    async with opened_product(Ground(postgres_server, tmp_path)) as product:
        toml = product.folder / "reactor.toml"
        toml.write_text(toml.read_text() + "\n[debounce]\nbytes_max = 1024\nopen_bytes_max = 1024\n")
        product.put({"t.sql": "-- on kafka://in\n-- batch n BIGINT\n-- materialize ducklake://main/t append\nSELECT n FROM batch"})
        product.logs.make("in")
        yield product


async def test_a_source_that_is_held_is_told(narrow: Product) -> None:
    lines: list[str] = []
    with kept(lines, logging.INFO):
        await _hold(narrow, lines)
    assert await narrow.tool.rows("SELECT count(*) FROM t") == [["800"]]
    assert wrong_lines(lines) == []


async def _hold(narrow: Product, lines: list[str]) -> None:
    replica = await narrow.start()
    held = replica.gates.hold("stage", "ducklake://main/t")

    async def told(word: str) -> None:
        async def there() -> bool:
            return any(json.loads(line)["event"] == word for line in lines)

        await until(there, f"{word} is said")

    partition = narrow.logs.partition("in")
    offset = 0
    for _ in range(4):
        narrow.logs.produce(partition, [Record(offset + i, b'{"n":%d}' % i) for i in range(200)])
        offset += 200
        await held.reached()
    await told("source_paused")
    held.release()
    await told("source_resumed")
    await narrow.settle()


async def test_an_outage_is_told_without_what_was_quoted(narrow: Product) -> None:
    replica = await narrow.start()
    replica.gates.fail("stage", "ducklake://main/t", Outage("no connection", hint=PLANTED))
    narrow.logs.produce(narrow.logs.partition("in"), [Record(0, b'{"n":1}')])
    await narrow.settle()
    assert narrow.said("run_deferred", "ducklake://main/t") == ["ducklake://main/t waits: no connection"]
