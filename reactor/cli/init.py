"""`reactor init`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reactor.cli.answers import table
from reactor.cli.call import Call, example, verb, verbs
from reactor.cli.starter import FILES
from reactor.errors import StateForbids, UsageError

app = verbs()


@app.command(epilog=example("reactor init shop && reactor --project shop check"))
@verb
def init(call: Call, folder: Annotated[Path | None, typer.Argument(help="Where to; here by default.")] = None) -> None:
    """Write a small working project.

    Settings with comments, and three scripts: orders from a Kafka topic appended to a table, their daily totals, and a program that runs after
    each new total. Nothing that is there is overwritten.
    """
    target = folder or call.flags.project or Path.cwd()
    written = write_project(target)
    call.answer({"folder": str(target), "files": written}, lambda: table(["written"], ((target / path,) for path in written)))
    call.note(f"next: reactor --project {target} check, then reactor --project {target} dev")


def write_project(folder: Path) -> list[str]:
    """Write the starter, all of it or nothing; the paths. Raises `StateForbids` if one of its files is there, `UsageError`."""
    there = [path for path in FILES if (folder / path).exists()]
    if there:
        raise StateForbids(f"{folder} has {', '.join(there)} already", hint="name a new folder: reactor init <folder>")
    try:
        for path, text in FILES.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be written: {error.strerror}", hint="name a folder where you may write") from error
    return list(FILES)
