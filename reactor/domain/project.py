"""All scripts of a project, judged together: which may run, what fires them, and what is wrong with the others.

`check_project` is pure: files by path and the configured names in, everything that `check` says out. The command, `serve`, editors and tests
all call it, so they can never disagree. What bad input gets is the feature table's: an error that refuses leaves the script out, any other
error leaves its line out, a warning and a note change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from reactor.domain.annotations import KEYWORDS, Keyword, read_header
from reactor.domain.assets import ProjectNames
from reactor.domain.bodies import BodyReading, read_body
from reactor.domain.diagnostics import Diagnostic, Range
from reactor.domain.inactive import inactive_findings
from reactor.domain.lineage import CURRENT_SUFFIX, Lineage
from reactor.domain.rules import SCRIPT_RULES, Draft, graph_findings
from reactor.domain.rules.draft import refusal
from reactor.domain.scripts import Header, Language, Script, ScriptPath

SCRIPT_BYTES_MAX: Final = 1 << 20
LANGUAGES: Final[Mapping[str, Language]] = {".sql": "sql", ".py": "python", ".sh": "shell"}
OTHER_SUFFIXES: Final = frozenset({
    ".ts", ".js", ".mjs", ".go", ".rs", ".rb", ".r", ".R", ".pl", ".php", ".lua", ".jl", ".java", ".kt", ".scala", ".ps1", ".bash", ".nu",
})
"""Suffixes of programs that need a command under `[runners]`, which may name others too. Files of any other suffix are no scripts."""

_TOP: Final = Range(1, 1, 1, 1)


@dataclass(frozen=True, slots=True)
class Checked:
    """A project after `check`. `scripts` are those that may be loaded; `inactive` of them wait for a feature, with what they wait for.

    `refused`: why a script is not loaded. `dropped`: how many lines of a loaded script are treated as not written.
    """

    scripts: Mapping[ScriptPath, Script]
    refused: Mapping[ScriptPath, tuple[str, ...]]
    inactive: Mapping[ScriptPath, tuple[str, ...]]
    dropped: Mapping[ScriptPath, int]
    diagnostics: tuple[Diagnostic, ...]
    lineage: Lineage

    @property
    def exit_code(self) -> int:
        """2 if there is an error, else 0."""
        return 2 if any(found.severity == "error" for found in self.diagnostics) else 0


def _any_type(type_: str) -> None:
    """Nothing is known against any type."""
    del type_


def check_project(
    files: Mapping[str, bytes], names: ProjectNames, keywords: Mapping[str, Keyword[object]] = KEYWORDS,
    undecodable: Callable[[str], str | None] = _any_type,
) -> Checked:
    """Judge every script among the files of a project (paths with `/`, relative to its folder).

    `undecodable` says why no column of a payload can have a type, None if it can: the decoder knows (`reactor.lake.decoding`).
    """
    drafts: dict[ScriptPath, Draft] = {}
    findings: dict[ScriptPath, list[Diagnostic]] = {}
    for path in sorted(files):
        language = language_of(path, names)
        if language is None:
            continue
        text, unreadable = _text(files[path])
        if unreadable is not None:
            if unreadable.code != "too-large" or read_header(text, names, keywords).annotated:
                findings[ScriptPath(path)] = [unreadable]
        elif draft := _draft(ScriptPath(path), language, text, names, files, keywords, undecodable):
            drafts[draft.path] = draft
            findings[draft.path] = list(_script_findings(draft))
    for path, found in graph_findings(drafts, Lineage(_script(draft, findings[draft.path]) for draft in drafts.values())):
        findings[path].append(found)
    return _checked(drafts, findings)


def language_of(path: str, names: ProjectNames) -> Language | None:
    """What a file may be a script in, by its suffix; None: it is none."""
    name = path.rpartition("/")[2]
    suffix = "." + name.rpartition(".")[2] if "." in name else ""
    return LANGUAGES.get(suffix, "other" if suffix in OTHER_SUFFIXES or suffix in names.runners else None)


def _text(data: bytes) -> tuple[str, Diagnostic | None]:
    """The text of a file without its byte order mark, and why it is no script (AN-1, limits); of a large file only the beginning."""
    if len(data) > SCRIPT_BYTES_MAX:
        return data[:SCRIPT_BYTES_MAX].decode("utf-8-sig", errors="replace"), refusal(_TOP, "too-large", f"a script has at most {SCRIPT_BYTES_MAX} bytes, this file has {len(data)}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig", errors="replace")
        line = before.count("\n") + 1
        place = Range.on_line(line, len(before) - (before.rfind("\n") + 1) + 1, 1)
        return "", refusal(place, "not-utf-8", f"the file is not UTF-8: byte {data[error.start]:#04x} at offset {error.start}")
    if (nul := text.find("\0")) >= 0:
        place = Range.on_line(text.count("\n", 0, nul) + 1, nul - (text.rfind("\n", 0, nul) + 1) + 1, 1)
        return "", refusal(place, "not-text", "the file holds a NUL character: it is no text")
    return text, None


def _draft(
    path: ScriptPath, language: Language, text: str, names: ProjectNames, files: Mapping[str, bytes], keywords: Mapping[str, Keyword[object]],
    undecodable: Callable[[str], str | None],
) -> Draft | None:
    """The file as a script; None if its header has no annotation."""
    reading = read_header(text, names, keywords)
    if not reading.annotated:
        return None
    body: BodyReading | None = None
    target, line = reading.header.materialize, reading.first("materialize")
    managed = target is not None and line is not None and target.strategy != "manual"
    if language == "sql" and (managed or reading.header.pipeline):
        made = [target.asset, *([target.asset + CURRENT_SUFFIX] if target.strategy == "scd2" else [])] if target else []
        at = line.place() if line is not None and managed else None
        body = read_body(text, reading.body_at, names, managed_at=at, writes=made, derives=reading.header.pipeline)
    return Draft(path, language, text, names, reading, body, files, undecodable)


def _script_findings(draft: Draft) -> Iterator[Diagnostic]:
    yield from draft.reading.findings
    if draft.body:
        yield from draft.body.findings
    for rule in SCRIPT_RULES:
        yield from rule(draft)
    yield from inactive_findings(draft)


def _script(draft: Draft, findings: list[Diagnostic]) -> Script:
    header = _without_dropped(draft.header, {found.code for found in findings})
    return Script(draft.path, draft.language, draft.text, header, draft.sql, draft.edges)


def _without_dropped(header: Header, codes: set[str]) -> Header:
    """The header as if the lines that a rule dropped were not written."""
    if "test-without-table" in codes:
        header = replace(header, data_tests=())
    if "unknown-on-failure" in codes:
        header = replace(header, on_failure=None)
    return replace(header, pre_run=None) if "unknown-pre-run" in codes else header


def _checked(drafts: Mapping[ScriptPath, Draft], findings: Mapping[ScriptPath, list[Diagnostic]]) -> Checked:
    refused = {path: tuple(f.message for f in found if f.refuses) for path, found in findings.items() if any(f.refuses for f in found)}
    loaded = {path: draft for path, draft in drafts.items() if path not in refused}
    scripts = {path: _script(draft, findings[path]) for path, draft in loaded.items()}
    waiting = {path: tuple(dict.fromkeys(f.message for f in findings[path] if f.code == "not-active")) for path in loaded}
    dropped = {path: len({f.range.line for f in findings[path] if f.severity == "error"}) for path in loaded}
    diagnostics = tuple(f.of(path) for path in sorted(findings) for f in sorted(findings[path], key=lambda f: f.range))
    return Checked(scripts, refused, {path: said for path, said in waiting.items() if said},
                   {path: lines for path, lines in dropped.items() if lines}, diagnostics, Lineage(scripts.values()))

