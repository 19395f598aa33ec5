"""Rules about the other files that a header names: libraries, hooks, tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from reactor.domain.annotations import Annotation, read_header
from reactor.domain.annotations.promises import BUILT_IN
from reactor.domain.bodies.lexer import statements_of, tokens_of
from reactor.domain.bodies.statements import kind_of
from reactor.domain.diagnostics import Diagnostic, Malformed, finding
from reactor.domain.rules.draft import Draft, refusal
from reactor.domain.scripts import DataTest
from reactor.domain.spelling import nearest

TESTED_SCHEMA = "_wm_target"
"""Where a test of one's own finds the table."""


def found_file(draft: Draft, name: str) -> str | None:
    """The path of a file that a header names: from the project's folder or beside the script, with or without `.sql`."""
    beside = (PurePosixPath(draft.path).parent / name).as_posix()
    return next((path for base in (name, beside) for path in (base, f"{base}.sql") if path in draft.files), None)


def _missing(draft: Draft, name: str) -> tuple[str, str | None]:
    close = nearest(name, draft.files) or nearest(f"{name}.sql", draft.files)
    return f"the project has no file `{name}`", close


def libraries_exist(draft: Draft) -> Iterator[Diagnostic]:
    """AN-28: what is used is a library."""
    for annotation in draft.reading.of("use"):
        path = found_file(draft, str(annotation.value))
        if path is None:
            yield refusal(annotation.line.first_range, "unknown-file", *_missing(draft, str(annotation.value)))
        elif path == draft.path or not read_header(_text(draft.files[path]), draft.names).header.macros:
            yield refusal(annotation.line.first_range, "no-library", f"`{path}` is no library: its header lacks `macros`")


def hooks_exist(draft: Draft) -> Iterator[Diagnostic]:
    """AN-29: a hook is a file."""
    for keyword in ("on_failure", "pre_run"):
        for annotation in draft.reading.of(keyword):
            if found_file(draft, str(annotation.value)) is None:
                message, close = _missing(draft, str(annotation.value))
                yield finding(annotation.line.first_range, "error", f"unknown-{keyword.replace('_', '-')}", message, close)


def tests_exist(draft: Draft) -> Iterator[Diagnostic]:
    """TS-5: a test of one's own is one SELECT over the tested table."""
    for annotation in draft.reading.of("data_test"):
        test = annotation.value
        if isinstance(test, DataTest) and test.name not in BUILT_IN:
            yield from _custom_test(draft, annotation, test.name)


def _custom_test(draft: Draft, annotation: Annotation, name: str) -> Iterator[Diagnostic]:
    place, path = annotation.line.first_range, found_file(draft, name)
    if path is None:
        yield refusal(place, "unknown-file", *_missing(draft, name))
        return
    text = _text(draft.files[path])
    try:
        statements = statements_of(list(tokens_of(text, read_header(text, draft.names).body_at)))
    except Malformed as wrong:
        yield refusal(place, "no-test", f"`{path}` is no SQL: {wrong.message}")
        return
    if not path.endswith(".sql") or [kind_of(statement) for statement in statements[:1]] != ["select"]:
        yield refusal(place, "no-test", f"`{path}` is no test: a test is one SELECT of the rows that must not be")
    elif len(statements) > 1:
        yield refusal(place, "no-test", f"`{path}` has {len(statements)} statements: a test is one SELECT")
    elif not any(token.identifier == TESTED_SCHEMA for token in statements[0].tokens):
        yield refusal(place, "no-test", f"`{path}` never reads `{TESTED_SCHEMA}.<table>`, so it tests nothing")


def library_is_one(draft: Draft) -> Iterator[Diagnostic]:
    """AN-28: a library holds macros and setup, nothing else."""
    if not draft.header.macros or draft.language != "sql" or draft.header.materialize:
        return
    try:
        kinds = [kind_of(statement) for statement in statements_of(list(tokens_of(draft.text, draft.reading.body_at)))]
    except Malformed:
        return
    if "macro" not in kinds:
        yield refusal(draft.place("macros"), "no-library", "a library holds at least one `CREATE MACRO`")
    elif others := [kind for kind in kinds if kind not in {"macro", "setup", "attach", "use", "temporary"}]:
        message = f"a library holds `CREATE MACRO` and setup only; this one has a statement that is {others[0]}"
        yield refusal(draft.place("macros"), "no-library", message)


def _text(data: bytes) -> str:
    return data.decode("utf-8-sig", errors="replace")


RULES = (libraries_exist, hooks_exist, tests_exist, library_is_one)
