"""The command line in this process, and projects for it."""

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reactor.cli import main

NUMBERS = "-- materialize ducklake://main/numbers\nSELECT range AS n, n % 3 AS rest FROM range(10)\n"
DAILY = "-- partitioned daily\n-- materialize ducklake://main/daily\nSELECT {partition} AS day, 1 AS one\n"
LANDED = "-- partitioned daily\n-- materialize ducklake://main/landed append\nSELECT {partition} AS day, 1 AS one\n"
KEYED = "-- partitioned dynamic key=$.shop\n-- materialize ducklake://main/keyed\nSELECT {partition} AS shop, 1 AS one\n"
READS_BATCH = "-- on kafka://orders\n-- batch id BIGINT\n-- materialize ducklake://main/orders append\nSELECT id FROM batch\n"
FAILING = "-- materialize ducklake://main/failing\nSELECT CAST('no number' AS INTEGER) AS n\n"
WAITING = "-- materialize ducklake://main/waiting\n-- freshness 1h\nSELECT 1 AS n\n"
REFUSED = "-- partitoned daily\n-- materialize ducklake://main/refused\nSELECT 1 AS n\n"
PROGRAM = "# on ducklake://main/numbers\ndef main(trigger):\n    print(trigger['reason'])\n"


@dataclass(frozen=True)
class Said:
    """What a call of the command line said."""

    exit_code: int
    out: str
    err: str

    @property
    def answer(self) -> Mapping[str, Any]:
        """The envelope."""
        found: Mapping[str, Any] = json.loads(self.out)
        assert found.keys() == {"schema", "data", "warnings"}
        return found

    @property
    def data(self) -> Any:
        """The result."""
        return self.answer["data"]

    @property
    def problem(self) -> Mapping[str, Any]:
        """The problem+json: the last line, for logs may stand before it."""
        found: Mapping[str, Any] = json.loads(self.err.splitlines()[-1])
        assert found["exit_code"] == self.exit_code
        return found


Reactor = Callable[..., Said]


@pytest.fixture
def reactor(capsys: pytest.CaptureFixture[str]) -> Iterator[Reactor]:
    """`reactor("check", "--json")` runs the command line here; its logging goes with the test."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level

    def call(*argv: str | Path) -> Said:
        limit = ["--timeout", "100"] if argv[:1] == ("run",) and "--timeout" not in argv else []  # a run that cannot go on waits for ever
        exit_code = main([*map(str, argv), *limit])
        said = capsys.readouterr()
        return Said(exit_code, said.out, said.err)

    yield call
    root.handlers[:], root.level = handlers, level


def project_at(folder: Path, url: str | None, files: Mapping[str, str], more: Sequence[str] = ()) -> Path:
    """A project with these scripts; `url`: of its database, None: the embedded one. `more`: lines of its settings."""
    state = [] if url is None else ["[state]", f'url = "{url}"', "[resources]", "threads = 1"]
    folder.mkdir(exist_ok=True)
    (folder / "reactor.toml").write_text("\n".join([*state, "[kafka.main]", 'bootstrap_servers = "127.0.0.1:1"', *more, ""]))
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


@pytest.fixture
def offline(tmp_path: Path) -> Callable[[Mapping[str, str]], Path]:
    """`offline({"a.sql": …})`: a project whose database does not answer."""
    return lambda files: project_at(tmp_path / "project", "postgresql://reactor@127.0.0.1:1/nowhere", files)


@pytest.fixture
def online(tmp_path: Path, database: str) -> Callable[[Mapping[str, str]], Path]:
    """`online({"a.sql": …})`: a project with an empty database."""
    return lambda files: project_at(tmp_path / "project", database, files)
