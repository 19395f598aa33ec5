"""Scripts that are not SQL run as child processes: `main` of a Python file, a shell script, or what `[runners]` names (decision 8).

A program gets why it was fired in `WM_TRIGGER` (JSON), `WM_TRIGGER_FILE` (whole, however long) and as arguments; its partition in
`WM_PARTITION`, `WM_PARTITION_START`, `WM_PARTITION_END`. It has a process group of its own, which ends whole: with the program, at its time
limit, and when the service stops or dies (`guard`). Its environment is allow-listed. It is run at least once: its position moves when it has
exited 0. What it says is the run's log while it runs (`run_logs`); the end of it is the error of one that fails.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import anyio

from reactor import program as program_file
from reactor.core.effects import StartRun
from reactor.domain.runs import Trigger
from reactor.errors import RunBlocked, RunFailed
from reactor.ports import NewRun, PartitionTokens
from reactor.runtime import guard
from reactor.runtime.committing import Committer
from reactor.runtime.run_logs import run_log

TRIGGER_BYTES_MAX = 65_536
"""Of `WM_TRIGGER`; the file holds all. Linux refuses an environment variable above 131,072."""
OUTPUT_TAIL_BYTES = 8192
LAST_WORDS_SECONDS = 1.0
KILL_SECONDS = 5.0
"""Between SIGTERM and SIGKILL of the process group."""
ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH")
"""What a program inherits; everything else is the service's own."""


@dataclass(frozen=True, slots=True)
class Programs:
    """How programs are started. `interpreters`: suffix without dot → command; `timeout_seconds`: of one run; `memory_bytes_max`: of a process."""

    folder: Path
    interpreters: Mapping[str, str]
    timeout_seconds: float
    memory_bytes_max: int | None = None

    def command(self, script: str) -> Sequence[str]:
        """The argument vector. Raises `RunBlocked` for a suffix that nobody runs, or one whose runner is not there."""
        suffix = Path(script).suffix.removeprefix(".")
        name, given = {"py": ("python", sys.executable), "sh": ("shell", "/bin/sh")}.get(suffix, (suffix, ""))
        program = self.interpreters.get(name, given)
        if not program:
            raise RunBlocked(f"{script}: no program runs .{suffix} files.", hint=f"Name one: [runners.{suffix}] interpreter = \"/path/to/program\"")
        if shutil.which(program) is None:
            raise RunBlocked(f"{script}: {program} cannot be started.", hint=f"Is it installed, and may it be executed? [runners.{name}] names another.")
        limited = [] if self.memory_bytes_max is None else ["/bin/sh", "-c", f'ulimit -v {self.memory_bytes_max // 1024} && exec "$@"', "sh"]
        return [*limited, program, *([program_file.__file__] if suffix == "py" else []), script]

    async def run(self, trigger: Trigger, script: str, say: Callable[[bytes], None]) -> None:
        """Until it exits; `say` gets what it says. Raises `RunFailed` with the tail of that, `RunBlocked`."""
        command = self.command(script)
        code: int | None = None
        try:
            with tempfile.TemporaryDirectory(prefix="reactor-run-") as scratch:
                file = Path(scratch) / "trigger.json"
                file.write_text(json.dumps(trigger.to_json()))
                async with _started(command, self.folder, environment(trigger, file), say) as (process, output):
                    with anyio.move_on_after(self.timeout_seconds):
                        code = await process.wait()
        except OSError as error:
            raise RunFailed(f"{script} cannot be started: {error}") from error
        if code is None:
            raise RunFailed(f"{script} ran longer than {self.timeout_seconds:g} s and was stopped.\n{output}".rstrip(), hint="[run] timeout_seconds")
        if code != 0:
            raise RunFailed(f"{script} exited with {code}.\n{output}")


@dataclass(slots=True)
class ProgramWork:
    """One run of a program: run once, and its position moved as often as it is refused."""

    start: StartRun
    programs: Programs
    committer: Committer
    done: bool = False
    timings: dict[str, float] = field(default_factory=dict)

    async def prepare(self, _tokens: PartitionTokens, /) -> None:
        """Nothing can be done before there is a run row, but a program that nobody runs is said."""
        self.programs.command(self.start.script.path)

    def describe(self, run: NewRun) -> NewRun:
        """As it is."""
        return run

    async def commit(self, run: NewRun) -> bool:
        """Run it, then move its positions."""
        if not self.done:
            began_at = time.perf_counter()
            try:
                async with run_log(self.committer.state, run.run_id) as log:
                    await self.programs.run(run.trigger, self.start.script.path, log.write)
            finally:
                self.timings["program"] = round(time.perf_counter() - began_at, 6)
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
        "PYTHONUNBUFFERED": "1",  # what it prints is seen at once
        "WM_TRIGGER": text, "WM_TRIGGER_FILE": str(file), "WM_PARTITION": trigger.partition,
        "WM_PARTITION_START": trigger.partition_start or "", "WM_PARTITION_END": trigger.partition_end or "",
    }


class Tail(asyncio.Protocol):
    """The end of what a program says. Only its last bytes are kept, for it may say a lot; `say` gets all."""

    def __init__(self, say: Callable[[bytes], None]) -> None:
        self._kept, self._say = b"", say
        self.ended = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        """More of it."""
        self._say(data)
        self._kept = (self._kept + data)[-OUTPUT_TAIL_BYTES:]

    def connection_lost(self, _error: Exception | None) -> None:
        """Nobody can say any more."""
        self.ended.set()

    def __str__(self) -> str:
        return self._kept.decode(errors="replace").strip()


@asynccontextmanager
async def _started(
    command: Sequence[str], folder: Path, env: Mapping[str, str], say: Callable[[bytes], None],
) -> AsyncIterator[tuple[Process, Tail]]:
    """A program under its guard, and what it says; left, its whole process group has ended.

    The pipes are our own: those of asyncio keep `wait` from returning while anybody that the program has left behind holds them.
    """
    held_by_guard, held = os.pipe()
    said, says = os.pipe()
    loop = asyncio.get_running_loop()
    reading, tail = await loop.connect_read_pipe(partial(Tail, say), os.fdopen(said, "rb", 0))
    try:
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-I", "-S", guard.__file__, *command, cwd=folder, env=env, start_new_session=True, stdin=held_by_guard, stdout=says, stderr=says)
        finally:
            os.close(held_by_guard)
            os.close(says)
        try:
            yield process, tail
        finally:
            with anyio.CancelScope(shield=True):
                await _end_group(process)
                with anyio.move_on_after(LAST_WORDS_SECONDS):  # one that has left the group may hold its end for ever
                    await tail.ended.wait()
    finally:
        reading.close()
        os.close(held)


async def _end_group(process: Process) -> None:
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
