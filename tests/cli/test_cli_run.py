"""`reactor run` without a replica, and what it leaves for `compile`, `query`, `list`, `runs`, `events`."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from reactor.errors import UsageError
from reactor.opening import opened_state
from reactor.project import Project, open_project
from reactor.runtime.service import Service
from reactor.state.listing import RunRecord
from reactor.wiring import inbox_lease, opened_service
from tests.cli.conftest import DAILY, FAILING, KEYED, LANDED, NUMBERS, PROGRAM, READS_BATCH, REFUSED, WAITING, Reactor, project_at

Online = Callable[[Mapping[str, str]], Path]
SCRIPTS = {
    "numbers.sql": NUMBERS, "daily.sql": DAILY, "landed.sql": LANDED, "keyed.sql": KEYED, "batch.sql": READS_BATCH, "failing.sql": FAILING,
    "waiting.sql": WAITING, "refused.sql": REFUSED, "program.py": PROGRAM,
}  # fmt: skip
RESULT = json.loads(files("reactor").joinpath("schemas/run-result.v1.json").read_text())


@pytest.fixture
def folder(online: Online, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The scripts above, in a project that is the current folder."""
    made = online(SCRIPTS)
    monkeypatch.chdir(made)
    return made


def result(said: Any) -> Mapping[str, Any]:
    jsonschema.validate(said.data, RESULT, format_checker=jsonschema.FormatChecker())
    found: Mapping[str, Any] = said.data
    return found


@pytest.mark.usefixtures("folder")
def test_the_outcome_and_the_same_rows_everywhere(reactor: Reactor) -> None:
    compiled = reactor("compile", "numbers.sql", "--json").data
    first = result(reactor("run", "numbers.sql", "--json"))
    assert (first["state"], first["asset"], first["partition"]) == ("completed", "ducklake://main/numbers", None)
    assert (first["rows_inserted"], first["rows_deleted"], first["changed"], first["previous_snapshot_id"]) == (10, 0, True, None)
    assert first["schema"]["columns"] == [["n", "BIGINT"], ["rest", "BIGINT"]]
    assert (first["schema"]["version"], first["actor"] != "", first["by_replica"]) == (1, True, False)
    assert first["compiled_sql"] == compiled["sql"], "what compile shows before is what runs"

    again = result(reactor("run", "numbers.sql", "--json"))
    assert (again["state"], again["changed"], again["snapshot_id"]) == ("completed", False, None), "equal content writes nothing"
    assert again["compiled_sql"] == reactor("compile", "numbers.sql", "--json").data["sql"] != first["compiled_sql"]

    line = next(a for a in reactor("list", "--json").data["assets"] if a["asset"] == first["asset"])
    assert (line["snapshot_id"], line["materialized"], line["blocked"]) == (first["snapshot_id"], 1, [])
    listed = reactor("runs", "list", "--asset", "ducklake://main/NUMBERS", "--json").data
    assert [r["run_id"] for r in listed["items"]] == [again["run_id"], first["run_id"]]
    page = reactor("runs", "list", "--script", "numbers.sql", "--limit", "1", "--json").data
    assert page["next_cursor"] == again["run_id"]
    rest = reactor("runs", "list", "--script", "./numbers.sql", "--cursor", page["next_cursor"], "--json").data
    assert ([r["run_id"] for r in rest["items"]], rest["next_cursor"]) == ([first["run_id"]], None)
    shown = reactor("runs", "show", first["run_id"], "--json").data
    assert (shown["trigger"]["reason"], shown["compiled_sql"]) == ("manual", first["compiled_sql"])
    told = reactor("runs", "show", first["run_id"]).out
    assert all(text in told for text in (first["run_id"], shown["script_version"], "evaluate", "commit"))
    assert reactor("runs", "list", "--state", "failed", "--json").data["items"] == []


@pytest.mark.usefixtures("folder")
def test_events_of_what_changed(reactor: Reactor) -> None:
    assert reactor("run", "numbers.sql").exit_code == 0
    assert reactor("run", "daily.sql", "--partition", "2026-06-19").exit_code == 0
    assert reactor("run", "daily.sql", "--partition", "2026-06-20").exit_code == 0
    events = reactor("events", "list", "--json").data["items"]
    assert [(e["subject"], e["data"]["partition"]) for e in events] == [
        ("ducklake://main/daily", "2026-06-20"), ("ducklake://main/daily", "2026-06-19"), ("ducklake://main/numbers", None)]
    page = reactor("events", "list", "--asset", "ducklake://main/daily", "--limit", "1", "--json").data
    assert page["items"] == events[:1]
    assert reactor("events", "list", "--asset", "ducklake://main/daily", "--cursor", str(page["next_cursor"]), "--json").data["items"] == events[1:2]
    assert reactor("events", "show", events[0]["id"], "--json").data == events[0]
    assert reactor("events", "show", "nothing").exit_code == 1
    tailed = reactor("events", "tail", "--from-start", "--limit", "2", "--json")
    assert [json.loads(line)["data"] for line in tailed.out.splitlines()] == [events[2], events[1]]
    assert reactor("events", "tail", "--from-start", "--limit", "1").out.startswith(events[2]["time"])
    assert reactor("events", "tail", "--timeout", "0.6").exit_code == 4


@pytest.mark.usefixtures("folder")
def test_the_slice_of_now_is_said(reactor: Reactor) -> None:
    before = datetime.now(UTC).date().isoformat()
    said = reactor("run", "daily.sql")
    assert said.exit_code == 0
    assert any(f"slice {day}" in said.err and day in said.out for day in {before, datetime.now(UTC).date().isoformat()})


@pytest.mark.usefixtures("folder")
def test_a_key_has_one_spelling(reactor: Reactor) -> None:
    said = reactor("run", "daily.sql", "--partition", "2026-6-1")
    assert (said.exit_code, "2026-06-01" in said.err) == (2, True)
    assert reactor("run", "numbers.sql", "--partition", "2026-06-01").exit_code == 2


@pytest.mark.usefixtures("folder")
def test_a_key_that_cannot_be_guessed_has_to_be_named(reactor: Reactor) -> None:
    for verb in ("run", "compile"):
        said = reactor(verb, "keyed.sql")
        assert (said.exit_code, "--partition" in said.err, "$.shop" in said.err) == (2, True, True)
    assert reactor("run", "keyed.sql", "--partition", "").exit_code == 2
    assert result(reactor("run", "keyed.sql", "--partition", "it's", "--json"))["partition"] == "it's"
    assert reactor("query", "SELECT shop FROM keyed", "--json").data["rows"] == [{"shop": "it's"}]


@pytest.mark.usefixtures("folder")
def test_an_append_has_a_slice_once(reactor: Reactor) -> None:
    assert reactor("run", "landed.sql", "--partition", "2026-06-19").exit_code == 0
    again = reactor("run", "landed.sql", "--partition", "2026-06-19")
    assert (again.exit_code, "--replace-slice" in again.err) == (1, True)
    replaced = result(reactor("run", "landed.sql", "--partition", "2026-06-19", "--replace-slice", "--json"))
    assert (replaced["rows_inserted"], replaced["rows_deleted"]) == (1, 1)
    assert reactor("run", "landed.sql", "--partition", "2026-06-20", "--replace-slice").exit_code == 0
    assert reactor("query", "SELECT count(*) AS n FROM landed", "--json").data["rows"] == [{"n": 2}]


@pytest.mark.usefixtures("folder")
def test_by_hand_there_is_no_batch(reactor: Reactor) -> None:
    for flag in ([], ["--replace-slice"]):
        said = reactor("run", "batch.sql", *flag)
        assert (said.exit_code, "positions reset ducklake://main/orders" in said.err) == (2, True)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("script", ["waiting.sql", "refused.sql", "nothing.sql"])
def test_what_does_not_run_does_not_run_by_hand(reactor: Reactor, script: str) -> None:
    assert reactor("run", script).exit_code == 2
    assert reactor("compile", script).exit_code == 2


@pytest.mark.usefixtures("folder")
def test_a_failure_is_shown_and_is_1(reactor: Reactor) -> None:
    said = reactor("run", "failing.sql", "--json")
    failed = result(said)
    assert (said.exit_code, failed["state"], failed["changed"]) == (1, "failed", False)
    assert "no number" in failed["error"]
    assert said.problem["type"] == "urn:reactor:problem:failed"
    assert reactor("runs", "list", "--state", "failed", "--json").data["items"][0]["run_id"] == failed["run_id"]
    line = next(a for a in reactor("list", "--json").data["assets"] if a["asset"] == "ducklake://main/failing")
    assert line["failed"] == 1
    assert reactor("run", "numbers.sql").exit_code == 0, "what was asked for and failed is not in the way"


@pytest.mark.usefixtures("folder")
def test_a_program_gets_its_arguments(reactor: Reactor) -> None:
    ran = result(reactor("run", "program.py", "--arg", "greeting=a=b", "--arg", "name=x", "--json"))
    assert (ran["state"], ran["asset"], ran["strategy"]) == ("completed", None, None)
    assert reactor("runs", "show", ran["run_id"], "--json").data["trigger"]["payload"] == {"greeting": "a=b", "name": "x"}
    for wrong in (["--arg", "greeting"], ["--arg", "=x"], ["--arg", "a=1", "--arg", "a=2"]):
        assert reactor("run", "program.py", *wrong).exit_code == 2
    assert reactor("compile", "program.py").exit_code == 2


def test_what_it_fires_is_left_to_serve_or_to_nobody(folder: Path, reactor: Reactor) -> None:
    for flags, cascade in (([], True), (["--no-cascade"], False)):
        (folder / "numbers.sql").write_text(NUMBERS.replace("range(10)", f"range({11 + cascade})"))
        ran = result(reactor("run", "numbers.sql", *flags, "--json"))
        record = kept(folder, ran["run_id"])
        assert (record.cascade, ran["changed"]) == (cascade, True)
    assert reactor("runs", "list", "--script", "program.py", "--json").data["items"] == []


def kept(folder: Path, run_id: str) -> RunRecord:
    async def asked() -> RunRecord:
        async with opened_state(open_project(folder, flags={}, environ={}).project, migrating=False) as state:
            found = await state.run(next(r.run_id for r in await state.runs() if str(r.run_id) == run_id))  # type: ignore[arg-type]
        assert found is not None
        return found

    return asyncio.run(asked())


@pytest.mark.usefixtures("folder")
def test_without_waiting_it_stays_in_the_inbox(reactor: Reactor) -> None:
    said = reactor("run", "numbers.sql", "--no-wait", "--json")
    assert (said.exit_code, said.data["state"]) == (0, "queued")
    assert "no replica is running" in reactor("run", "daily.sql", "--no-wait").err
    assert reactor("runs", "list", "--json").data["items"] == []
    result(reactor("run", "numbers.sql", "--json"))
    assert len(reactor("runs", "list", "--json").data["items"]) == 1, "both requests of one slice are one run"


def test_a_replica_that_starts_meanwhile_does_not_take_what_this_process_carries_out(folder: Path, reactor: Reactor, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may not know the script, and nobody would carry it out."""
    taken = list[bool]()

    @asynccontextmanager
    async def raced(project: Project, **how: Any) -> AsyncIterator[Service]:
        async with opened_state(project) as state:
            taken.append(await state.lease(inbox_lease(""), "a replica", 1.0))
        async with opened_service(project, **how) as service:
            yield service

    monkeypatch.setattr(sys.modules["reactor.cli.run"], "opened_service", raced)
    said = reactor("run", "numbers.sql", "--json", "--project", folder)
    assert (said.exit_code, said.data["by_replica"], taken) == (0, False, [False])


def test_the_embedded_database_is_started_for_the_time_of_a_verb(reactor: Reactor, tmp_path: Path) -> None:
    folder = project_at(tmp_path / "project", None, {"numbers.sql": NUMBERS})
    looked = reactor("runs", "list", "--project", folder)
    assert (looked.exit_code, "reactor dev" in looked.err) == (3, True)
    assert not (folder / ".reactor").exists(), "who only looks makes nothing"
    assert reactor("list", "--project", folder).exit_code == 0
    try:
        ran = reactor("run", "numbers.sql", "--project", folder)
    except UsageError:  # pragma: no cover - no wheel here
        pytest.skip("no embedded PostgreSQL here")
    assert (ran.exit_code, "is started for this command" in ran.err) == (0, True)
    assert reactor("query", "SELECT sum(n) AS s FROM numbers", "--json", "--project", folder).data["rows"] == [{"s": "45"}]


def test_a_database_that_does_not_answer_is_3(reactor: Reactor, offline: Online) -> None:
    folder = offline(SCRIPTS)
    for argv in (["runs", "list"], ["events", "list"], ["positions", "list"], ["run", "numbers.sql"], ["query", "SELECT 1"]):
        said = reactor(*argv, "--json", "--project", folder)
        assert (said.exit_code, said.problem["type"]) == (3, "urn:reactor:problem:unreachable")
    listed = reactor("list", "--json", "--project", folder)
    assert (listed.exit_code, len(listed.data["scripts"]), len(listed.answer["warnings"])) == (0, len(SCRIPTS), 1)
    compiled = reactor("compile", "numbers.sql", "--json", "--project", folder)
    assert (compiled.exit_code, "as if the table were there" in compiled.answer["warnings"][0]) == (0, True)


def test_an_empty_database_says_what_is_missing(reactor: Reactor, folder: Path) -> None:
    for argv in (["runs", "list"], ["query", "SELECT 1"]):
        said = reactor(*argv, "--project", folder)
        assert (said.exit_code, "serve" in said.err) == (1, True)
    assert reactor("list", "--project", folder).exit_code == 0


def test_list_says_why_something_does_not_run(reactor: Reactor, folder: Path) -> None:
    lines = {line["script"]: line for line in reactor("list", "--json", "--project", folder).data["scripts"]}
    assert (lines["waiting.sql"]["state"], lines["refused.sql"]["state"], lines["numbers.sql"]["state"]) == ("inactive", "refused", "active")
    assert "partitoned" in lines["refused.sql"]["why"][0]
    assert lines["numbers.sql"]["fires"] == ["program.py"]
    assert (lines["keyed.sql"]["partitioned"], lines["batch.sql"]["inputs"]) == ("dynamic", ["kafka://main/orders"])
    shown = reactor("list", "--project", folder).out
    assert "why it does not run" in shown
    assert "partitoned" in shown


def test_no_secret_and_no_wide_line_is_lost_in_a_pipe(reactor: Reactor, folder: Path) -> None:
    assert sys.stdout.isatty() is False
    assert all(line == line.rstrip() for line in reactor("list", "--project", folder).out.splitlines())


def test_a_run_that_takes_too_long_is_given_up(folder: Path, reactor: Reactor) -> None:
    (folder / "endless.sql").write_text("-- materialize ducklake://main/endless\nSELECT count(*) AS n FROM range(100000000000) a, range(100) b\n")
    said = reactor("run", "endless.sql", "--timeout", "4")
    assert (said.exit_code, "the request stays" in said.err) == (4, True), said
