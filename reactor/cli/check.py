"""`reactor check`."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import RenderableType
from rich.text import Text

from reactor.cli.answers import Json, counted, printable
from reactor.cli.call import Call, example, verb, verbs
from reactor.cli.failures import DONE, FAILED, USAGE
from reactor.domain.diagnostics import Diagnostic, Range, Severity
from reactor.domain.project import SCRIPT_BYTES_MAX
from reactor.errors import UsageError
from reactor.project import Opened, path_in

app = verbs()

COLORS: Mapping[Severity, str] = {"error": "red", "warning": "yellow", "note": "cyan"}


@app.command(epilog=example("reactor check raw/orders.sql --json"))
@verb
def check(
    call: Call,
    paths: Annotated[list[Path] | None, typer.Argument(help="Say only what concerns these files and folders; of the project they lie in.")] = None,
    stdin: Annotated[bool, typer.Option("--stdin", help="Read the text of one file from stdin: --file names it.")] = False,
    file: Annotated[str | None, typer.Option("--file", metavar="NAME", help="Which file stdin stands for.")] = None,
    online: Annotated[bool, typer.Option("--online", help="Also ask the lakes whether each SELECT fits, and the clusters for the topics.")] = False,
    fail_on: Annotated[Literal["error", "warn"], typer.Option("--fail-on", help="warn: exit 1 if there is a warning.")] = "error",
) -> int:
    """Judge all scripts, without a database or a broker. Nothing is written.

    With --online the lakes and clusters are asked too: what would block a run is an error then. Exit code 2 if there is an error. With --json: a
    list of {file, range, severity, code, message, suggestion}; ranges are those of the language server protocol (lines and UTF-16 columns from 0).
    """
    if stdin != (file is not None):
        raise UsageError("--stdin and --file belong together", hint="reactor check --stdin --file raw/orders.sql < orders.sql")
    if file is not None:
        folder = call.folder_of([Path(file)])
        name = path_in(folder, file)
        opened, wanted = call.open(instead={name: sys.stdin.buffer.read(SCRIPT_BYTES_MAX + 1)}, folder=folder), [name]
    else:
        opened = call.open(folder=call.folder_of(paths or []))
        wanted = [_known(opened, str(path)) for path in paths or ()]
    judged = [*opened.checked.diagnostics, *(_online(call, opened) if online else ())]
    found = [d for d in judged if not wanted or _below(d.file, wanted)]
    call.answer(as_lsp(found, opened.files), lambda: _lines(found))
    for path in wanted:
        if path in opened.files and path not in opened.checked.scripts and path not in opened.checked.refused:
            call.note(f"{path} is no script: it does not begin with a header (the line `-- pipeline` or `# pipeline`, or another annotation)")
    counts = {severity: sum(d.severity == severity for d in found) for severity in COLORS}
    scripts = len(opened.checked.scripts) + len(opened.checked.refused)
    call.note(f"{counted(scripts, 'script')}: " + ", ".join(counted(n, severity) for severity, n in counts.items()))
    if counts["error"]:
        return USAGE
    return FAILED if fail_on == "warn" and counts["warning"] else DONE


def _online(call: Call, opened: Opened) -> Sequence[Diagnostic]:
    from reactor.cli.online import online_findings  # noqa: PLC0415 - drivers are imported only where they are asked for: an editor waits

    return online_findings(call, opened)


def _known(opened: Opened, name: str) -> str:
    """The path of a file or folder in the project; `.` is all of it."""
    path = path_in(opened.project.folder, name)
    if path != "." and not any(_below(file, [path]) for file in opened.files):
        raise UsageError(f"{name}: there is no script in {opened.project.folder} by this name", hint="paths are those below the project's folder; --project FOLDER names another")
    return path


def _below(file: str, paths: Collection[str]) -> bool:
    return any(path in {".", file} or file.startswith(f"{path}/") for path in paths)


def _lines(found: Sequence[Diagnostic]) -> RenderableType | None:
    """One finding a line, as editors and terminals know to jump to."""
    if not found:
        return None
    text = Text()
    for d in found:
        text.append(f"{printable(d.file)}:{d.range.line}:{d.range.column}: ")
        text.append(d.severity, style=COLORS[d.severity])
        text.append(f": {printable(d.message)} [{d.code}]\n")
    text.rstrip()
    return text


def as_lsp(found: Sequence[Diagnostic], files: Mapping[str, bytes]) -> Json:
    """The findings as editors read them."""
    lines = {d.file: files[d.file].decode("utf-8-sig", errors="replace").split("\n") for d in found}
    return [
        {"file": d.file, "range": _range(d.range, lines[d.file]), "severity": d.severity, "code": d.code, "message": d.message,
         "suggestion": d.suggestion}
        for d in found
    ]


def _range(place: Range, lines: Sequence[str]) -> Json:
    return {"start": _position(place.line, place.column, lines), "end": _position(place.end_line, place.end_column, lines)}


def _position(line: int, column: int, lines: Sequence[str]) -> Json:
    """From 1 and characters to 0 and UTF-16 units."""
    before = lines[line - 1][: column - 1] if line <= len(lines) else ""
    return {"line": line - 1, "character": len(before.encode("utf-16-le", errors="surrogatepass")) // 2}
