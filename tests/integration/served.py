"""`reactor serve` as a process of its own: started, watched by its log, stopped in order, killed, frozen."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from reactor.embedded.child import command_as_child
from tests.harness.log_lines import wrong_lines
from tests.parts.waiting import wait_until

READY_SECONDS = 90.0
STOP_SECONDS = 60.0


class Served:
    """A replica. Its log is read again at each question: JSON lines by `event`."""

    def __init__(self, project: Path, log_path: Path, environment: Mapping[str, str], arguments: tuple[str, ...] = ()) -> None:
        self._log_path = log_path
        command = [sys.executable, "-m", "reactor", "serve", "--project", str(project), *arguments]
        inherited = {name: text for name, text in os.environ.items() if not name.startswith("REACTOR_")}
        with log_path.open("wb") as log:
            self.process = subprocess.Popen(
                command_as_child(command, user="same", folder=Path.cwd(), death_signal=signal.SIGKILL),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**inherited, **environment}, start_new_session=True)

    # -- what it says

    def log(self) -> str:
        """All of it, as text."""
        return self._log_path.read_text(errors="replace")

    def said(self, event: str, **fields: str) -> list[dict[str, Any]]:
        """Its log lines of this event, with these fields."""
        lines = [json.loads(line) for line in self.log().splitlines() if line.startswith('{"timestamp"') and line.endswith("}")]
        return [line for line in lines if line["event"] == event and fields.items() <= line.items()]

    def wrong_lines(self) -> list[str]:
        """What it has written that no line of the log may be. The last line of one that was killed may be cut; one that failed tells why, in words."""
        if self.process.returncode not in {0, -signal.SIGKILL}:
            return []
        return wrong_lines(self.log().split("\n")[:-1])

    def wait_until_said(self, event: str, seconds: float = READY_SECONDS, **fields: str) -> dict[str, Any]:
        """The first such line, once it is there. Fails if the process ends before."""
        wait_until(lambda: bool(self.said(event, **fields)) or self.ended, f"{event} {fields}", seconds)
        found = self.said(event, **fields)
        assert found, f"ended with {self.process.returncode} before it said {event} {fields}:\n{self.log()[-3000:]}"
        return found[0]

    def wait_until_ready(self) -> None:
        """It has reached everything that it needs."""
        self.wait_until_said("service_ready")

    @property
    def health_url(self) -> str:
        """Where `/readyz` is."""
        said: str = self.wait_until_said("service_started")["message"]
        return said.rpartition(" at ")[2]

    def ready(self) -> tuple[int, dict[str, tuple[str, str]]]:
        """What `/readyz` answers: the status, and of each check its status and message."""
        try:
            with urlopen(f"{self.health_url}/readyz", timeout=10) as answer:  # noqa: S310 - our own process
                status, body = answer.status, answer.read()
        except HTTPError as error:
            status, body = error.code, error.read()
        return status, {check["name"]: (check["status"], check["message"]) for check in json.loads(body)["checks"]}

    def alive(self) -> bool:
        """Whether `/livez` is content."""
        with urlopen(f"{self.health_url}/livez", timeout=10) as answer:  # noqa: S310 - our own process
            return bool(answer.status == 200)

    @property
    def ended(self) -> bool:
        """Whether the process is gone."""
        return self.process.poll() is not None

    # -- what is done to it

    def send(self, sign: signal.Signals) -> None:
        """A signal to the process alone."""
        self.process.send_signal(sign)

    def wait_until_ended(self, seconds: float = STOP_SECONDS) -> int:
        """Its exit code, negative: the signal that ended it."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"serve still runs after {seconds:.0f} s:\n{self.log()[-3000:]}") from None

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait()

    @property
    def frozen(self) -> bool:
        """Whether it has been stopped by SIGSTOP, and not woken."""
        return not self.ended and Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def wait_until_frozen(self, seconds: float = READY_SECONDS) -> None:
        """It has been stopped by SIGSTOP."""
        wait_until(lambda: self.frozen, "serve is frozen", seconds)

    def stop(self) -> None:
        """In order, as Kubernetes does; it exits 0."""
        self.send(signal.SIGTERM)
        code = self.wait_until_ended()
        assert code == 0, f"exit code {code}:\n{self.log()[-3000:]}"
