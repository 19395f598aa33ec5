"""`reactor`: finds the verb, runs it, and turns whatever happens into an exit code."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Annotated, Any, NamedTuple

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from reactor import __version__
from reactor.cli import answers
from reactor.cli.allocators import share_freed_memory
from reactor.cli.call import Flags, example, flagged
from reactor.cli.failures import DONE, FAILED, INTERRUPTED, Failure, Interrupted, TimedOut, failure_of

logging.getLogger("aiokafka").addHandler(logging.NullHandler())
"""What a verb has to say of a broker it says itself; who serves starts its own logging, which has the library's words too."""


class Verb(NamedTuple):
    """Where a verb is written, and what the list of verbs says of it: nothing is imported for a verb that is not called.

    `app`: the name of its typer application in that module.
    """

    module: str
    says: str
    app: str = "app"


VERBS: Mapping[str, Verb] = {
    "init": Verb("reactor.cli.init", "Write a small working project."),
    "check": Verb("reactor.cli.check", "Judge all scripts, without a database or a broker."),
    "compile": Verb("reactor.cli.compile", "Show the SQL that a run would execute."),
    "list": Verb("reactor.cli.list", "Show the scripts and what they materialize."),
    "show": Verb("reactor.cli.show", "Show everything that is known about one asset or script."),
    "graph": Verb("reactor.cli.graph", "Show what fires what."),
    "dev": Verb("reactor.cli.dev", "Start a private PostgreSQL and broker, and serve."),
    "demo": Verb("reactor.cli.demo", "Run the demo's project, with a shop that sends orders."),
    "serve": Verb("reactor.cli.serve", "Run the scripts whenever their sources change."),
    "run": Verb("reactor.cli.run", "Run one script now."),
    "explain": Verb("reactor.cli.explain", "Say why an asset, a slice or a script ran, why it did not run, and what it waits for."),
    "query": Verb("reactor.cli.query", "Look at rows of the lakes."),
    "connect": Verb("reactor.cli.connect", "Print how a plain DuckDB, Python and BI tools read the lakes."),
    "maintain": Verb("reactor.cli.maintain", "Care for a lake."),
    "migrate": Verb("reactor.cli.migrate", "Bring the state database to the schema of this version, and let a role read the lakes."),
    "doctor": Verb("reactor.cli.doctor", "Look at everything that Reactor needs."),
    "runs": Verb("reactor.cli.runs", "What has run."),
    "events": Verb("reactor.cli.events", "What was committed, and told."),
    "pause": Verb("reactor.cli.pause", "Start no more runs of an asset."),
    "resume": Verb("reactor.cli.pause", "Let a paused asset run again.", "resuming"),
    "tail": Verb("reactor.cli.tail", "Show the events of an asset as they are committed."),
    "positions": Verb("reactor.cli.positions", "How far sources have been read."),
    "config": Verb("reactor.cli.config", "The settings."),
}


class LateCommand(TyperCommand):
    """A verb in the list of verbs; its module is imported when it is called."""

    def __init__(self, name: str, found: Verb) -> None:
        super().__init__(name, help=found.says, rich_markup_mode=None)
        self._found = found

    def make_context(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - handed through to a class that typer keeps private
        """The context of the real command."""
        app: typer.Typer = getattr(_imported(self._found.module), self._found.app)
        return typer.main.get_command(app).make_context(*args, **kwargs)


def _imported(module: str) -> ModuleType:
    """What is imported lives as long as the process: the garbage collector looks neither at it now nor ever (a third of a second, and 50 ms each time)."""
    if module in sys.modules:
        return sys.modules[module]
    gc.disable()
    try:
        return import_module(module)
    finally:
        gc.freeze()
        gc.enable()


class Verbs(TyperGroup):
    """All verbs, in the order of `VERBS`."""

    def __init__(self, **attributes: Any) -> None:  # noqa: ANN401 - typer's own
        super().__init__(**attributes)
        for name, found in VERBS.items():
            self.add_command(LateCommand(name, found))


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"reactor {__version__}")
        raise typer.Exit


def _reactor(ctx: typer.Context, flags: Flags, **_: object) -> None:
    """Events in, fresh and correct tables out: Kafka topics become lake tables, exactly once, and every new version is the next event.

    Each verb says more: reactor <verb> --help. Exit codes: 0 done, 1 failed, 2 usage, settings or script, 3 a dependency does not answer,
    4 timeout, 130 Ctrl-C.
    """
    ctx.obj = flags


def _version_option(
    version: Annotated[bool, typer.Option("--version", is_eager=True, callback=_show_version, help="The version.")] = False,
) -> None:
    """What typer reads `--version` from."""


def command() -> Callable[..., int | None]:
    """The whole command line."""
    app = typer.Typer(rich_markup_mode=None)
    app.callback(cls=Verbs, epilog=example("reactor init shop && reactor --project shop dev"))(flagged(_reactor, inspect.signature(_version_option, eval_str=True).parameters.values()))
    return typer.main.get_command(app).main


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line (default: this process's) and return its exit code."""
    share_freed_memory()
    given = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    try:
        return command()(args=given, prog_name="reactor", standalone_mode=False) or DONE
    except SystemExit as done:  # of shell completion
        return int(done.code or DONE)
    except BrokenPipeError:  # whoever read the result has had enough
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - for the flush at exit
        return FAILED
    except (Exception, asyncio.CancelledError, KeyboardInterrupt, Interrupted, TimedOut) as error:  # noqa: BLE001 - the border
        return told(failure_of(error), as_json="--json" in given)


def told(failure: Failure, *, as_json: bool) -> int:
    """Say it on stderr; its exit code. Who has pressed Ctrl-C knows it, whatever reads JSON does not."""
    if as_json:
        print(failure.problem, file=sys.stderr)  # noqa: T201 - one line of JSON
    elif failure.exit_code != INTERRUPTED:
        answers.say(failure.text, color="--no-color" not in sys.argv)
    return failure.exit_code
