import json
import re
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cases.__main__ import run_folder
from tests.cases.files import BadCases, Pending, read_kinds, read_pending

GIVEN = Path(__file__).parent
ROOT = Path(__file__).parents[2]
RIGHT = "def run(case, setup):\n    got = setup['start'] + sum(case['terms'])\n    return None if got == case['expect'] else f'got {got} wanted {case[\"expect\"]}'\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three cases of the kind `sums` (the second is wrong), one of `unheard_of`."""
    sums = [{"id": f"sum-{n}", "terms": [1, n], "expect": 3, "why": "history"} for n in (2, 3)] + [
        {"id": "sum-4", "terms": [], "expect": "later"}
    ]
    (tmp_path / "sums.json").write_text(json.dumps({"kind": "sums", "setup": {"start": 0}, "cases": sums}))
    (tmp_path / "unheard_of.json").write_text(json.dumps({"kind": "unheard_of", "cases": [{"id": "unh-1"}]}))
    return tmp_path


@pytest.fixture
def lines(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """What the program says of `folder` when the runner of `sums` is the given text."""

    def run(runner: str, *pending: Pending) -> list[str]:
        package = f"runners_{uuid.uuid4().hex}"
        (folder / package).mkdir()
        (folder / package / "sums.py").write_text(runner)
        monkeypatch.syspath_prepend(folder)
        return run_folder(folder, pending, package).lines()

    return run


LATER = Pending("XX-1", "sums", re.compile('"expect":"later"'))
UNHEARD = "skipped (no runner for unheard_of): unh-1"


def test_passed_failed_and_skipped_are_told_apart(lines: Callable[..., list[str]]) -> None:
    assert lines(RIGHT, LATER) == [
        "skipped (waits for XX-1): sum-4",
        UNHEARD,
        "sum-3: got 4 wanted 3",
        "cases: passed=1 failed=1 skipped=2",
    ]


def test_a_rule_does_not_read_prose(lines: Callable[..., list[str]]) -> None:
    assert lines(RIGHT, LATER, Pending("XX-2", "sums", re.compile("history")))[-1] == "cases: passed=1 failed=1 skipped=2"


def test_a_runner_that_raises_fails_its_case_alone(lines: Callable[..., list[str]]) -> None:
    said = lines(RIGHT.replace("    got", "    assert case['id'] != 'sum-3', 'odd'\n    got", 1), LATER)
    assert said[-2:] == ["sum-3: raised AssertionError('odd') at sums.py:2", "cases: passed=1 failed=1 skipped=2"]


def test_a_runner_may_be_a_coroutine_with_an_environment(lines: Callable[..., list[str]]) -> None:
    runner = (
        "import contextlib\n@contextlib.contextmanager\ndef environment():\n    yield 3\n"
        "async def run(case, setup, wanted):\n    return None if case['expect'] == wanted else 'got something else'\n"
    )
    assert lines(runner, LATER)[-1] == "cases: passed=2 failed=0 skipped=2"


TOGETHER = (
    "async def run_together(cases, setup):\n    ids = [case['id'] for case in cases]\n"
    "    assert 'sum-3' not in ids, f'dead of {ids}'\n    return {one: None for one in ids}\n"
)


def test_a_case_that_ends_what_it_shares_fails_alone(lines: Callable[..., list[str]]) -> None:
    said = lines(TOGETHER)
    assert said[-2].startswith("sum-3: raised AssertionError(\"dead of ['sum-3']")
    assert said[-1] == "cases: passed=2 failed=1 skipped=1"


def test_cases_without_an_answer_are_run_again(lines: Callable[..., list[str]]) -> None:
    said = lines(TOGETHER.replace("for one in ids}", "for one in ids[:1]}").replace("'sum-3' not in ids", "ids"))
    assert said[-1] == "cases: passed=3 failed=0 skipped=1"


def test_a_kind_whose_parts_fail_leaves_the_others_alone(lines: Callable[..., list[str]]) -> None:
    said = lines("def environment():\n    raise ValueError('no ground')\n" + RIGHT, LATER)
    assert said[-1] == "cases: passed=0 failed=2 skipped=2"
    assert any("no ground" in line for line in said)


@pytest.mark.parametrize(("in_ci", "last"), [("", "cases: passed=0 failed=0 skipped=4"), ("1", "cases: passed=0 failed=2 skipped=2")])
def test_a_part_that_is_missing_skips_the_kind_but_fails_it_in_ci(
    lines: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch, in_ci: str, last: str
) -> None:
    monkeypatch.setenv("CI", in_ci)
    monkeypatch.delenv("REACTOR_CI", raising=False)
    said = lines("from tests.parts import PartMissing\ndef environment():\n    raise PartMissing('needs a moon')\n" + RIGHT, LATER)
    assert said[-1] == last
    assert any("needs a moon" in line for line in said)


def test_each_rule_in_force_fits_a_given_case() -> None:
    kinds = read_kinds(GIVEN)
    for rule in read_pending():
        assert any(rule.holds(kind.name, case) for kind in kinds for case in kind.cases), rule


def test_the_index_names_the_given_cases() -> None:
    named = [line.split(",")[0] for line in (GIVEN / "index.csv").read_text().splitlines()[1:]]
    assert sorted(named) == sorted(str(case["id"]) for kind in read_kinds(GIVEN) for case in kind.cases)


def test_a_folder_without_cases_and_a_broken_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadCases, match="no case files"):
        read_kinds(tmp_path)
    (tmp_path / "x.json").write_text('{"kind": "x"}')
    with pytest.raises(BadCases, match=r"x\.json: not a case file"):
        read_kinds(tmp_path)


def test_the_program_says_its_counts_last_and_exits_by_them(folder: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "tests.cases", str(folder)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "cases: passed=0 failed=0 skipped=4"
    assert done.returncode == 0
    missing = subprocess.run(
        [sys.executable, "-m", "tests.cases", str(folder / "none")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (missing.returncode, missing.stdout) == (2, "")
