"""One call of a verb: the flags that every verb has, and the ways to answer."""

from __future__ import annotations

import asyncio
import getpass
import inspect
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, TypeVar

import typer
from rich.console import RenderableType

from reactor.cli import answers
from reactor.cli.failures import INTERRUPTED, Interrupted, TimedOut
from reactor.errors import UsageError

if TYPE_CHECKING:
    from reactor.project import Opened

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags of every verb; None and False: not given."""

    project: Path | None = None
    profile: str | None = None
    workspace: str | None = None
    json: bool = False
    quiet: bool = False
    no_color: bool = False
    timeout: float | None = None

    @property
    def settings(self) -> dict[str, object]:
        """Those that are settings, by dotted name."""
        return {"workspace": self.workspace}

    def over(self, other: Flags) -> Flags:
        """These, and for those not given the others: flags may stand before the verb and behind it."""
        return Flags(
            self.project or other.project, self.profile or other.profile, self.workspace or other.workspace, self.json or other.json,
            self.quiet or other.quiet, self.no_color or other.no_color, other.timeout if self.timeout is None else self.timeout,
        )


def flag_parameters(
    project: Annotated[Path | None, typer.Option(metavar="FOLDER", help="The project; else the folder above that has a reactor.toml.")] = None,
    profile: Annotated[str | None, typer.Option(metavar="NAME", help="A [profiles.<name>] of the settings.")] = None,
    workspace: Annotated[str | None, typer.Option(metavar="NAME", help="The data environment, instead of that of the settings.")] = None,
    json: Annotated[bool, typer.Option("--json", help="The result as JSON on stdout, an error as problem+json on stderr.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Neither notes nor progress.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colors.")] = False,
    timeout: Annotated[float | None, typer.Option(metavar="SECONDS", min=0.001, help="Give up after so long, with exit code 4.")] = None,
) -> Flags:
    """What typer reads the flags from."""
    return Flags(project, profile, workspace, json, quiet, no_color, timeout)


@dataclass(frozen=True, slots=True)
class Call:
    """A verb that was called, with its flags. `warnings` are part of the answer."""

    verb: str
    flags: Flags
    warnings: list[str] = field(default_factory=list)

    @property
    def color(self) -> bool:
        """Whether colors are allowed; a terminal is looked for on top of it."""
        return not self.flags.no_color and not os.environ.get("NO_COLOR")

    @property
    def folder(self) -> Path:
        """The project: as told, else the nearest folder from here up that has settings, else the current one."""
        return self.folder_of([])

    def folder_of(self, paths: Sequence[Path]) -> Path:
        """The project of these paths: as told, else the nearest folder from them up, or from here, that has settings, else the current one.

        Raises `UsageError` if they lie in more than one.
        """
        from reactor.project import SETTINGS_FILE, absolute  # noqa: PLC0415 - a list of verbs needs neither projects nor settings

        if self.flags.project is not None:
            return self.flags.project
        here = Path.cwd()
        upwards = [[at, *at.parents, here, *here.parents] for at in map(absolute, paths or [here])]
        found = sorted({next((folder for folder in folders if (folder / SETTINGS_FILE).is_file()), here) for folders in upwards})
        if len(found) > 1:
            raise UsageError(f"these paths lie in more than one project: {', '.join(map(str, found))}", hint="name those of one project at a time")
        return found[0]

    def open(self, instead: dict[str, bytes] | None = None, folder: Path | None = None) -> Opened:
        """Read the project within the time limit; what is worth a warning is said, and which folder is taken for one that has no settings."""
        from reactor.project import SETTINGS_FILE, open_project  # noqa: PLC0415 - as above

        at = folder or self.folder
        if self.flags.project is None and not (at / SETTINGS_FILE).exists():
            self.note(f"no {SETTINGS_FILE} here or above: {at} is taken as the project; `reactor init` makes one")
        with self.limited():
            opened = open_project(at, flags=self.flags.settings, environ=os.environ, profile=self.flags.profile, instead=instead)
        for warning in opened.warnings:
            self.warn(warning)
        return opened

    def answer(self, data: object, shown: Callable[[], RenderableType | None]) -> None:
        """The result: `data` as JSON, or what `shown` makes for eyes, if there is anything to see."""
        if self.flags.json:
            print(answers.envelope(self.verb, data, self.warnings), flush=True)  # noqa: T201 - stdout is the result
        elif (seen := shown()) is not None:
            answers.write(seen, color=self.color)

    def note(self, text: str) -> None:
        """Something by the way, on stderr, for people: with `--json` only a problem stands there."""
        if not self.flags.quiet and not self.flags.json:
            answers.say(text, color=self.color, style="dim")

    def warn(self, text: str) -> None:
        """Part of the answer: in the JSON, else on stderr."""
        self.warnings.append(text)
        if not self.flags.json:
            answers.say(f"warning: {text}", color=self.color, style="yellow")

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Carry out on an event loop. Raises `TimedOut`, `KeyboardInterrupt`, and what the work raises."""
        with asyncio.Runner() as runner:
            return runner.run(self._limited(work))

    async def _limited(self, work: Coroutine[Any, Any, T]) -> T:
        interrupts = 0

        def interrupt() -> None:
            nonlocal interrupts
            interrupts += 1
            if interrupts > 1:
                sys.stderr.flush()
                os._exit(INTERRUPTED)
            done.cancel()

        done = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, interrupt)
        try:
            async with asyncio.timeout(self.flags.timeout) as limit:
                return await done
        except TimeoutError:
            if limit.expired():
                raise self._timed_out() from None
            raise
        except asyncio.CancelledError:
            if interrupts:
                raise KeyboardInterrupt from None
            raise
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    @contextmanager
    def limited(self) -> Iterator[None]:
        """The same limit for work that blocks the main thread."""
        rung = False

        def ring(_signal: int, _frame: FrameType | None) -> None:
            nonlocal rung
            rung = True
            raise self._timed_out()

        if self.flags.timeout is None:
            yield
            return
        before = signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, self.flags.timeout)
        try:
            yield
        except Exception as error:
            if rung:  # what a library that called us back has made of it
                raise self._timed_out() from error
            raise
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def _timed_out(self) -> TimedOut:
        return TimedOut(f"{self.verb} was not done within {self.flags.timeout:g} s")


def flagged(act: Callable[..., int | None], own: Iterable[inspect.Parameter]) -> Callable[..., int | None]:
    """A function for typer that takes its own parameters and behind them those of `Flags`, and calls `act(ctx, flags, **own)`."""
    shared = inspect.signature(flag_parameters, eval_str=True).parameters
    first = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [first, *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*own, *shared.values()))]

    def command(ctx: typer.Context, **given: Any) -> int | None:  # noqa: ANN401 - typer has checked them
        flags = flag_parameters(**{name: given.pop(name) for name in shared})
        return act(ctx, flags.over(ctx.find_object(Flags) or Flags()), **given)

    command.__doc__ = act.__doc__
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    vars(command)["__signature__"] = inspect.Signature(parameters)
    return command


def verb(function: Callable[Concatenate[Call, P], int | None]) -> Callable[..., int | None]:
    """A command for typer from a function over a `Call`; its name is the function's."""
    def act(ctx: typer.Context, flags: Flags, **given: Any) -> int | None:  # noqa: ANN401 - typer has checked them
        call: Callable[..., int | None] = function
        try:
            return call(Call(ctx.command_path.partition(" ")[2], flags), **given)
        except KeyboardInterrupt:
            raise Interrupted from None

    act.__doc__ = function.__doc__
    command = flagged(act, list(inspect.signature(function, eval_str=True).parameters.values())[1:])
    command.__name__ = function.__name__
    return command


def actor() -> str:
    """Who asks: the user of this process, by name if it has one."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def verbs(help_text: str | None = None, *, such_as: str = "") -> typer.Typer:
    """The typer application of one file of verbs; `help_text`: what its verbs are about, if there are several, `such_as`: one of them."""
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    if help_text is not None:
        app.callback(help=help_text, epilog=example(such_as), invoke_without_command=True)(flagged(_several, ()))
    return app


def _several(ctx: typer.Context, flags: Flags) -> None:
    """Flags may stand before the second word of a verb, too."""
    ctx.obj = flags
    if ctx.invoked_subcommand is None:
        raise UsageError(f"{ctx.command_path} needs one of its verbs", hint=f"{ctx.command_path} --help lists them")


def example(line: str) -> str:
    """The end of a verb's help."""
    return f"Example: {line}"
