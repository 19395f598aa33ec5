"""A secret and a value of a row are planted, and found nowhere that others may look (OB-7, SC-3): logs, stderr, `ps`, metrics, `config show`."""

import signal
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from tests.cli.conftest import NUMBERS, Reactor, project_at
from tests.cli.test_cli_serve import Process
from tests.harness.log_lines import wrong_lines
from tests.parts.waiting import wait_until

SECRET, VALUE = "planted-secret", "planted-4711"
FAILING = "-- materialize ducklake://main/failing\nSELECT CAST('planted-' || (4000 + 711) AS INTEGER) AS n\n"
KEYS = "-- materialize ducklake://main/keys key=k\nSELECT 'planted-' || (4000 + 711) AS k FROM range(2)\n"
PROGRAM = "# on ducklake://main/numbers\nimport sys\nprint('planted-' + str(4000 + 711))\nprint('planted-' + str(4000 + 711), file=sys.stderr)\nsys.exit(1)\n"
WAITS = "# on ducklake://main/numbers\nimport os, time\nwhile not os.path.exists('go'):\n    time.sleep(0.05)\n"
READS = "-- on kafka://main/in\n-- batch n BIGINT\n-- materialize ducklake://main/t append\nSELECT n FROM batch\n"
KAFKA = ['security_protocol = "SASL_PLAINTEXT"', 'sasl_username = "reactor"', 'sasl_password = "env:PLANTED_PASSWORD"']
SCRIPTS = {"numbers.sql": NUMBERS, "failing.sql": FAILING, "keys.sql": KEYS, "program.py": PROGRAM, "waits.py": WAITS}


@pytest.fixture
def url(database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The database's, with a password, by an environment variable."""
    parts = urlsplit(database)
    monkeypatch.setenv("PLANTED_URL", parts._replace(netloc=f"{parts.username}:{SECRET}@{parts.hostname}:{parts.port}").geturl())
    monkeypatch.setenv("PLANTED_PASSWORD", SECRET)
    return "env:PLANTED_URL"


def processes(served: Process) -> list[psutil.Process]:
    found = psutil.Process(served.process.pid)
    return [found, *found.children(recursive=True)]


def program_of(served: Process) -> list[psutil.Process]:
    return [p for p in processes(served) if "waits.py" in p.cmdline()]


def test_by_a_replica_and_who_asks_it(url: str, tmp_path: Path, reactor: Reactor) -> None:
    folder = project_at(tmp_path / "project", url, SCRIPTS)
    with Process(folder, ["serve"]) as served:
        served.wait_for("service_ready")
        for script in ("failing.sql", "keys.sql", "program.py"):
            asked = reactor("run", script, "--project", folder)
            assert (asked.exit_code, "error: the run failed" in asked.err, VALUE in asked.err) == (1, True, False)
            assert VALUE in asked.out, "the result of the run may show it, and helps"
            assert VALUE not in reactor("run", script, "--json", "--project", folder).err
        assert reactor("run", "waits.py", "--no-wait", "--project", folder).exit_code == 0
        wait_until(lambda: bool(program_of(served)), "the program runs", 60)
        commands = [" ".join(p.cmdline()) for p in processes(served)]
        environments = [p.environ() for p in program_of(served)]
        page = served.health("/metrics")[1]
        (folder / "go").touch()
        shown = reactor("config", "show", "--project", folder)
        assert served.ends(signal.SIGTERM) == 0
        lines = served.log_path.read_text().splitlines()
        assert served.process.stderr is not None
        stderr = served.process.stderr.read().decode()
    assert wrong_lines(lines) == []
    told = [*lines, *commands, page, stderr, shown.out, shown.err, *(f"{name}={text}" for found in environments for name, text in found.items())]
    assert [text for text in told if SECRET in text or VALUE in text] == []
    assert {"service_started", "service_ready", "service_draining", "service_stopped", "run_failed"} <= {line["event"] for line in served.lines}


def test_of_parts_that_are_away(url: str, tmp_path: Path, reactor: Reactor, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project_at(tmp_path / "project", url, {"reads.sql": READS}, KAFKA)
    with Process(folder, ["serve"]) as served:
        served.wait_for("source_away")
        lines = served.log_path.read_text().splitlines()
    monkeypatch.setenv("PLANTED_URL", f"postgresql://reactor:{SECRET}@127.0.0.1:1/nowhere")
    with Process(folder, ["serve"]) as served:
        served.wait_for("start_waits")
        lines += served.log_path.read_text().splitlines()
    said = reactor("runs", "list", "--project", folder)
    assert said.exit_code == 3
    assert wrong_lines(lines) == []
    assert [text for text in (*lines, said.out, said.err) if SECRET in text] == []
