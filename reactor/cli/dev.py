"""`reactor dev`: everything on one machine."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from reactor.cli.call import Call, example, verb, verbs
from reactor.cli.failures import DONE, FAILED, INTERRUPTED
from reactor.cli.supervisor import LOOK_SECONDS, Signals, Supervised, supervised
from reactor.errors import StateForbids

app = verbs()


@app.command(epilog=example("reactor dev --seconds 60"))
@verb
def dev(
    call: Call,
    seconds: Annotated[float | None, typer.Option(min=0.0, help="End in order after so long; else at Ctrl-C.")] = None,
) -> int:
    """Start a private PostgreSQL and broker, and serve. What the settings name is not started.

    Scripts are reloaded as soon as their files change. Ctrl-C ends all in order, a second one at once. What ends by itself is not started
    again.
    """
    opened = call.open()
    with Signals() as signals, supervised(opened.project, signals, ["--watch", *_handed_on(call)]) as running:
        for name, where in (("PostgreSQL", running.parts.state_url), ("broker", running.parts.bootstrap_servers)):
            if where is not None:
                call.note(f"{name}: {where}")
        said = until_asked(running, seconds)
        exit_code = running.serve.poll() if said is not None else running.stop()
    if said is not None and exit_code is None:
        raise StateForbids(said, hint="its last lines say why; nothing is started again by itself")
    if said is not None:
        call.note(said)
        return exit_code or FAILED
    return INTERRUPTED if signals.insisted else exit_code or DONE


def until_asked(running: Supervised, seconds: float | None) -> str | None:
    """Watch until somebody asks to stop, or the time is over; else what has ended by itself."""
    until = None if seconds is None else time.monotonic() + seconds
    while not running.signals.wait(LOOK_SECONDS) and (until is None or time.monotonic() < until):
        if (said := running.ended()) is not None and not running.signals.asked:
            return said
    return None


def _handed_on(call: Call) -> list[str]:
    """Flags that `serve` takes too."""
    named = {"--profile": call.flags.profile, "--workspace": call.flags.workspace}
    given = [word for flag, value in named.items() if value for word in (flag, value)]
    return [*given, *(["--timeout", str(call.flags.timeout)] if call.flags.timeout is not None else [])]
