"""The log of a product: every word that it can say, in lines of one shape, and no value of a row (OB-7)."""

import ast
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
from tests.runtime.life import PLANTED, Life, kept, until_said, words

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
    "service_started": "cli/test_cli_serve.py::test_every_line_of_the_log_is_an_object_with_the_fields_of_all",
    "service_ready": "cli/test_cli_serve.py::test_every_line_of_the_log_is_an_object_with_the_fields_of_all",
    "service_stopped": "cli/test_cli_serve.py::test_every_line_of_the_log_is_an_object_with_the_fields_of_all",
    "signal_received": "cli/test_cli_serve.py::test_every_line_of_the_log_is_an_object_with_the_fields_of_all",
    "service_progress": "cli/test_serve_live.py::test_off_a_terminal_a_line_of_the_log_says_how_far_it_is",
    "no_script": "cli/test_serve_live.py::test_off_a_terminal_a_line_of_the_log_says_how_far_it_is",
    "view_failed": "cli/test_serve_live.py::test_a_screen_that_cannot_be_drawn_ends_nothing_else",
    "start_waits": "cli/test_cli_serve.py::test_what_is_away_at_the_start_is_waited_for",
    "script_refused": "cli/test_cli_serve.py::test_a_replica_starts_serves_and_stops_in_order",
    "lines_dropped": "cli/test_cli_serve.py::test_a_replica_starts_serves_and_stops_in_order",
    "service_reloaded": "runtime/test_reload.py::test_a_new_text_runs_from_the_next_run_on_and_reads_on_where_the_old_one_was",
    "reload_refused": "cli/test_cli_reload.py::test_an_error_anywhere_refuses_the_whole",
    "settings_changed": "cli/test_cli_reload.py::test_settings_stay_those_of_the_start",
    "watch_failed": "cli/test_cli_reload.py::test_a_folder_that_is_gone_for_a_while_is_watched_again",
    "source_away": "cli/test_nothing_told.py::test_of_parts_that_are_away",
    "source_paused": "runtime/test_log_lines.py::test_a_source_that_is_held_is_told",
    "source_resumed": "runtime/test_log_lines.py::test_a_source_that_is_held_is_told",
    "state_away": "runtime/test_outages_said.py::test_postgresql_that_is_away_under_a_run_is_waited_for",
    "turn_skipped": "runtime/test_outages_said.py::test_postgresql_that_is_away_under_a_run_is_waited_for",
    "run_deferred": "runtime/test_log_lines.py::test_an_outage_is_told_without_what_was_quoted",
    "run_warned": "runtime/test_refused_runs.py::test_what_was_staged_for_other_columns_is_staged_again",
    "task_failed": "runtime/test_service_ends.py::test_with_a_mistake_in_the_loop",
    "log": "test_telemetry.py::test_what_a_library_says_has_a_word_too",
}
"""Words that this life does not say, with the test that provokes each and names it."""
TESTS = Path(__file__).parents[1]


def test_the_words_of_the_conventions_are_known() -> None:
    assert CONVENTIONS - LATER.keys() <= EVENTS.keys()
    assert not LATER.keys() & EVENTS.keys()


@pytest.mark.parametrize("word", sorted(EVENTS.keys() - ELSEWHERE.keys()))
async def test_it_is_said(life: Life, word: str) -> None:
    assert word in words(life.lines)


@pytest.mark.parametrize("word", sorted(ELSEWHERE))
def test_another_test_waits_for_it(word: str) -> None:
    """It is there, and compares the word or hands it to a call: neither a comment nor a docstring is enough."""
    path, _, name = ELSEWHERE[word].partition("::")
    (test,) = (at for at in ast.parse((TESTS / path).read_text()).body if isinstance(at, ast.FunctionDef | ast.AsyncFunctionDef) and at.name == name)
    used = [at for at in ast.walk(test) if isinstance(at, ast.Compare | ast.Call)]
    assert word in {at.value for node in used for at in ast.walk(node) if isinstance(at, ast.Constant)}
    assert word in EVENTS
    assert name.startswith("test_")


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
        replica = await narrow.start()
        held = replica.gates.hold("stage", "ducklake://main/t")
        partition = narrow.logs.partition("in")
        for first in range(0, 800, 200):
            narrow.logs.produce(partition, [Record(first + i, b'{"n":%d}' % i) for i in range(200)])
            await held.reached()
        await until_said(lines, "source_paused")
        held.release()
        await until_said(lines, "source_resumed")
        await narrow.settle()
    assert await narrow.tool.rows("SELECT count(*) FROM t") == [["800"]]
    assert wrong_lines(lines) == []


async def test_an_outage_is_told_without_what_was_quoted(narrow: Product) -> None:
    replica = await narrow.start()
    replica.gates.fail("stage", "ducklake://main/t", Outage("no connection", hint=PLANTED))
    narrow.logs.produce(narrow.logs.partition("in"), [Record(0, b'{"n":1}')])
    await narrow.settle()
    assert narrow.said("run_deferred", "ducklake://main/t") == ["ducklake://main/t waits: no connection"]
