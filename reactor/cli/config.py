"""`reactor config`: the settings in force, and what can be set."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Annotated

import typer

from reactor.cli.answers import table
from reactor.cli.call import Call, example, verb, verbs
from reactor.domain.spelling import nearest
from reactor.errors import UsageError
from reactor.settings import Shown, json_schema, load
from reactor.settings.loading import DEFAULT

app = verbs("The settings: what is in force and where it comes from, and what can be set.", such_as="reactor config show --set")


@app.command(name="show", epilog=example("reactor config show kafka"))
@verb
def show_settings(
    call: Call,
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Only these settings and sections: http, kafka.main, http.port.")] = None,
    only_set: Annotated[bool, typer.Option("--set", help="Only what somebody has set.")] = False,
) -> None:
    """Show each setting in force, and where its value comes from: a flag, a variable, a file, a line of reactor.toml, or the default.

    Secrets are shown as ***, addresses without their user info.
    """
    loaded = load(call.folder, flags=call.flags.settings, environ=os.environ, profile=call.flags.profile)
    for warning in loaded.warnings:
        call.warn(warning)
    shown = [one for one in _chosen(loaded.shown(), names or ()) if not only_set or one.origin != DEFAULT]
    call.answer(shown, lambda: table(["setting", "value", "from"], ((one.name, _spoken(one.value), one.origin) for one in shown)))


def _chosen(shown: Sequence[Shown], names: Sequence[str]) -> Sequence[Shown]:
    """Raises `UsageError` for a name that nothing has."""
    sections = {".".join(one.name.split(".")[:depth]) for one in shown for depth in range(1, len(one.name.split(".")) + 1)}
    for name in names:
        if name not in sections:
            close = nearest(name, sections)
            raise UsageError(f"there is no setting `{name}`", hint=f"did you mean {close}?" if close else "reactor config schema lists what can be set")
    return [one for one in shown if not names or any(one.name == name or one.name.startswith(f"{name}.") for name in names)]


def _spoken(value: object) -> str:
    """A value as the file has it; empty for none."""
    return "" if value is None else json.dumps(value, ensure_ascii=False)


@app.command(name="schema", epilog=example("reactor config schema > reactor.schema.json"))
@verb
def show_schema(call: Call) -> None:
    """Print the JSON Schema of reactor.toml, for editors: every section and field with its bounds, its default and what it does."""
    schema = json_schema()
    call.answer(schema, lambda: json.dumps(schema, indent=2))
