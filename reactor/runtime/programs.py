"""Scripts that are not SQL run as child processes: `main` of a Python file, a shell script, or what `[runners]` names (decision 8).

A program gets why it was fired in `WM_TRIGGER` (JSON), `WM_TRIGGER_FILE` (whole, however long) and as arguments; its partition in
`WM_PARTITION`, `WM_PARTITION_START`, `WM_PARTITION_END`. It has a process group of its own, which is killed whole at its time limit or
when the service stops; its environment is allow-listed. It is run at least once: its position moves when it has exited 0.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from reactor.core.effects import StartRun
from reactor.domain.runs import Trigger
from reactor.errors import RunBlocked, RunFailed
from reactor.ports import NewRun, PartitionTokens
from reactor.runtime.committing import Committer

TRIGGER_BYTES_MAX = 65_536
"""Of `WM_TRIGGER`; the file holds all. Linux refuses an environment variable above 131,072."""
OUTPUT_TAIL_BYTES = 8192
KILL_SECONDS = 5.0
"""Between SIGTERM and SIGKILL of the process group."""
ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH")
"""What a program inherits; everything else is the service's own."""


@dataclass(frozen=True, slots=True)
class Programs:
    """How programs are started. `interpreters`: suffix without dot → command; `timeout_seconds`: of one run."""

    folder: Path
    interpreters: Mapping[str, str]
    timeout_seconds: float

    def command(self, script: str) -> Sequence[str]:
        """The argument vector. Raises `RunBlocked` for a suffix that nobody runs."""
        suffix = Path(script).suffix.removeprefix(".")
        if suffix == "py":
            return [self.interpreters.get("python", sys.executable), "-m", "reactor.program", script]
        if suffix == "sh":
            return [self.interpreters.get("shell", "/bin/sh"), script]
        if suffix in self.interpreters:
            return [self.interpreters[suffix], script]
        raise RunBlocked(f"{script}: no program runs .{suffix} files.", hint=f"Name one: [runners.{suffix}] interpreter = \"/path/to/program\"")

    async def run(self, trigger: Trigger, script: str) -> None:
        """Until it exits. Raises `RunFailed` with the tail of what it said, `RunBlocked`."""
        command = self.command(script)
        with tempfile.TemporaryDirectory(prefix="reactor-run-") as scratch:
            file = Path(scratch) / "trigger.json"
            file.write_text(json.dumps(trigger.to_json()))
            try:
                process = await asyncio.create_subprocess_exec(
                    *command, cwd=self.folder, env=environment(trigger, file), start_new_session=True,
                    stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT)
            except OSError as error:
                raise RunBlocked(f"{script}: {command[0]} cannot be started: {error.strerror}.", hint="Is it installed, and may it be executed?") from error
            try:
                async with asyncio.timeout(self.timeout_seconds):
                    tail = await _tail(process)
                    code = await process.wait()
            except TimeoutError:
                raise RunFailed(f"{script} ran longer than {self.timeout_seconds:g} s and was stopped.", hint="[run] timeout_seconds") from None
            finally:
                await _end_group(process)
        if code != 0:
            raise RunFailed(f"{script} exited with {code}.\n{tail}")


@dataclass(slots=True)
class ProgramWork:
    """One run of a program: run once, and its position moved as often as it is refused."""

    start: StartRun
    programs: Programs
    committer: Committer
    done: bool = False

    async def prepare(self, _tokens: PartitionTokens, /) -> None:
        """Nothing can be done before there is a run row, but a program that nobody runs is said."""
        self.programs.command(self.start.script.path)

    def describe(self, run: NewRun) -> NewRun:
        """As it is."""
        return run

    async def commit(self, run: NewRun) -> bool:
        """Run it, then move its positions."""
        if not self.done:
            await self.programs.run(run.trigger, self.start.script.path)
            self.done = True
        return await self.committer.complete(run, ())

    async def close(self) -> None:
        """Nothing is held."""


def environment(trigger: Trigger, file: Path) -> dict[str, str]:
    """What a program sees."""
    text = json.dumps(trigger.to_json())
    if len(text.encode()) > TRIGGER_BYTES_MAX:
        emptied = [name for name in ("events", "objects") if getattr(trigger, name)]
        text = json.dumps(replace(trigger, events=(), objects=(), truncated=tuple(emptied)).to_json())
    inherited = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    return inherited | {
        "WM_TRIGGER": text, "WM_TRIGGER_FILE": str(file), "WM_PARTITION": trigger.partition,
        "WM_PARTITION_START": trigger.partition_start or "", "WM_PARTITION_END": trigger.partition_end or "",
    }


async def _tail(process: asyncio.subprocess.Process) -> str:
    kept = b""
    if process.stdout is not None:
        while chunk := await process.stdout.read(65_536):
            kept = (kept + chunk)[-OUTPUT_TAIL_BYTES:]
    return kept.decode(errors="replace").strip()


async def _end_group(process: asyncio.subprocess.Process) -> None:
    """Whoever the program has started ends with it."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            break
        try:
            async with asyncio.timeout(KILL_SECONDS):
                await process.wait()
        except TimeoutError:
            continue
        if sign == signal.SIGTERM and not _group_lives(process.pid):
            break
    await process.wait()


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
