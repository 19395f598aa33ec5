"""Does what the tutorial says, word by word, in a clean folder: python -m docs.first_hour

A page is played like this. A fence with a file's name as its title is that file. The lines of a `sh` fence go, one by one, to the shell of the
terminal that is its title; a line that ends in `# until Ctrl-C` is left running, one that ends in `# exit N` must end so, any other must
end with 0. A `text` fence says what the command before it prints, among other things: that command is repeated until it does, since a
reader looks again too.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

PROJECT: Final = Path(__file__).parents[1]
PAGES: Final = Path(__file__).parent / "pages"
FENCE: Final = re.compile(r'^```(\w+)(?: title="([^"]*)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
SHOWN_SECONDS_MAX: Final = 90.0
"""How long what a page shows may take to be so."""
COMMAND_SECONDS_MAX: Final = 600.0
STOP_SECONDS_MAX: Final = 100.0


class Step(NamedTuple):
    """A fence: a file to write, lines for a terminal, or what is shown."""

    language: str
    title: str
    text: str


class Failed(Exception):
    """A command that did not do what the page says."""


def steps(page: Path) -> Iterator[Step]:
    """The fences of a page."""
    return (Step(*found) for found in FENCE.findall(page.read_text()))


@dataclass(slots=True)
class Terminal:
    """A shell that keeps its folder and its variables from command to command."""

    folder: Path
    transcript: IO[str]
    shell: subprocess.Popen[str] = field(init=False)
    running: str = ""

    def __post_init__(self) -> None:
        self.shell = subprocess.Popen(
            ["bash", "--norc"], cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True, env={**os.environ, "COLUMNS": "200", "PYTHONUNBUFFERED": "1"})

    def leave_running(self, command: str) -> None:
        """Start what ends at Ctrl-C."""
        self._write(f"exec {command}\n")
        self.running = command

    def do(self, command: str) -> tuple[int, str]:
        """Carry out a command: its exit code and what it printed."""
        self._write(f"{command}\necho \"$?:done\"\n")
        said: list[str] = []
        patience = threading.Timer(COMMAND_SECONDS_MAX, os.killpg, (self.shell.pid, signal.SIGKILL))
        patience.start()
        try:
            for line in self._out:
                self.transcript.write(line)
                if line.rstrip("\n").endswith(":done") and (code := line.rstrip("\n").removesuffix(":done")).isdigit():
                    return int(code), "".join(said)
                said.append(line)
        finally:
            patience.cancel()
        raise Failed(f"the shell has ended, or was ended after {COMMAND_SECONDS_MAX:g} s, at: {command}")

    def stop(self) -> int:
        """Ctrl-C if something is running, else the end of the session; the exit code."""
        if self.running and self.shell.poll() is None:
            os.killpg(self.shell.pid, signal.SIGINT)
        said, _ = self.shell.communicate(timeout=STOP_SECONDS_MAX)
        self.transcript.write(said or "")
        return self.shell.returncode

    def kill(self) -> None:
        """Whatever is left."""
        if self.shell.poll() is None:
            os.killpg(self.shell.pid, signal.SIGKILL)
            self.shell.communicate()

    @property
    def _out(self) -> IO[str]:
        assert self.shell.stdout is not None
        return self.shell.stdout

    def _write(self, text: str) -> None:
        assert self.shell.stdin is not None
        self.transcript.write(f"$ {text}")
        self.shell.stdin.write(text)
        self.shell.stdin.flush()


@dataclass(slots=True)
class Reader:
    """Somebody who does what pages say."""

    folder: Path
    transcript: IO[str]
    commands: int = 0
    terminals: dict[str, Terminal] = field(default_factory=dict)
    _last: tuple[Terminal, str] | None = None

    def play(self, page: Path) -> Iterator[str]:
        """Do the steps; yields what is being done. Raises `Failed`."""
        for step in steps(page):
            if step.language == "sh":
                terminal = self.terminals.setdefault(step.title, Terminal(self.folder, self.transcript))
                for line in filter(None, step.text.splitlines()):
                    yield line
                    self._command(terminal, line)
            elif step.language == "text":
                self._shown(step.text.splitlines())
            elif step.title:
                (self.folder / step.title).parent.mkdir(parents=True, exist_ok=True)
                (self.folder / step.title).write_text(step.text)

    def stop(self) -> None:
        """Ctrl-C in each terminal. Raises `Failed` if what ran there does not end in order."""
        for name, terminal in self.terminals.items():
            if (code := terminal.stop()) != 0:
                raise Failed(f"{name}: `{terminal.running or 'bash'}` ended with {code}")

    def _command(self, terminal: Terminal, line: str) -> None:
        self.commands += 1
        command, _, remark = (part.strip() for part in line.partition("  # "))
        if remark == "until Ctrl-C":
            terminal.leave_running(command)
            return
        wanted = int(remark.removeprefix("exit ")) if remark.startswith("exit ") else 0
        self._last = (terminal, command)
        code, said = self._repeated(terminal, command, wanted)
        if code != wanted:
            raise Failed(f"`{command}` ended with {code}, not {wanted}:\n{said}")

    @staticmethod
    def _repeated(terminal: Terminal, command: str, wanted: int) -> tuple[int, str]:
        """What is a moment too early is asked again, as a reader would."""
        until = time.monotonic() + SHOWN_SECONDS_MAX
        code, said = terminal.do(command)
        while code != wanted and command.startswith(("reactor query", "reactor run ", "python send")) and time.monotonic() < until:
            time.sleep(1.0)
            code, said = terminal.do(command)
        return code, said

    def _shown(self, lines: list[str]) -> None:
        assert self._last is not None
        terminal, command = self._last
        until = time.monotonic() + SHOWN_SECONDS_MAX
        while missing := [line for line in lines if not _holds(said := terminal.do(command)[1], line)]:
            if time.monotonic() > until:
                raise Failed(f"`{command}` does not show {missing[0]!r}:\n{said}")
            time.sleep(1.0)


def _holds(said: str, line: str) -> bool:
    """Whether it is printed, whatever the frame of a table and the blanks are."""
    return " ".join(line.split()) in " ".join(re.sub(r"[│┃|]", " ", said).split())


def main() -> int:
    """Play the tutorial, and say how long it took."""
    began, failed = time.monotonic(), ""
    page = PAGES / "tutorial.md"
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "transcript").open("w") as transcript:
        (Path(folder) / "reactor").symlink_to(PROJECT)
        reader = Reader(Path(folder), transcript)
        lines = sum(len(step.text.split("\n")) - 1 for step in steps(page) if step.language == "sh")
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        try:
            with Progress(*columns, console=Console(stderr=True)) as progress:
                task = progress.add_task("the tutorial", total=lines)
                for line in reader.play(page):
                    progress.update(task, advance=1, description=line[:60])
                reader.stop()
        except (Failed, subprocess.TimeoutExpired) as error:
            failed = str(error)
            print(failed, file=sys.stderr)
        finally:
            for terminal in reader.terminals.values():
                terminal.kill()
    print(f"first-hour: seconds={time.monotonic() - began:.0f} commands={reader.commands} failed={int(bool(failed))}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
