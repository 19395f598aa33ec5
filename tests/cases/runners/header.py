"""The comment header and what `check` says: one file in an otherwise sound project, judged by `check_project`."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from reactor.domain.annotations import read_type
from reactor.domain.assets import ProjectNames
from reactor.domain.diagnostics import Diagnostic
from reactor.domain.project import Checked, check_project
from reactor.domain.scripts import DataTest, Edge, Header, Script, ScriptPath
from tests.cases import Case
from tests.cases.comparing import choices, is_right, nearest

Facts = Mapping[str, Any]
"""A part of a case: JSON."""
NAMES = ProjectNames(lakes=("main",), clusters=("main",), stores=("land",))
BODY = "SELECT 1 AS id"
NAMED_SCRIPT = re.compile(r"^(?:--|#|//)\s*(use|on_failure|pre_run|data_test)\s+(\S*[./]\S*)", re.MULTILINE)
NAMED_FILES = {
    "use": "-- macros\nCREATE MACRO one() AS 1", "on_failure": "SELECT 1", "pre_run": "SELECT 1", "data_test": "SELECT * FROM _wm_target.t WHERE false",
}


def run(case: Case, setup: Case) -> str | None:
    """What differs from the case."""
    del setup
    checked, path = check(case)
    return nearest([list(differences(checked, path, expect)) for expect in choices(case["expect"])])


def check(case: Facts) -> tuple[Checked, ScriptPath]:
    """`check` over the file of a case and the files that its lines name."""
    lines, path = list(case["text"]), str(case.get("file", "x.sql"))
    text = "\n".join(lines)
    comments = all(line.lstrip().startswith(("--", "#", "//")) or not line.strip() for line in text.removeprefix("\ufeff").splitlines())
    if path.endswith(".sql") and comments:
        text += f"\n{BODY}"
    files = {path: text.encode()}
    for keyword, name in NAMED_SCRIPT.findall(text):
        files.setdefault(name if "." in name.rpartition("/")[2] else f"{name}.sql", NAMED_FILES[keyword].encode())
    return check_project(files, NAMES), ScriptPath(path)


def differences(checked: Checked, path: ScriptPath, expect: Facts) -> Iterator[str]:
    """Each field of `expect` that the result does not have."""
    said = [found for found in checked.diagnostics if found.severity != "note"]
    if "refused" in expect and (path in checked.refused) != expect["refused"]:
        yield f"refused: got {path in checked.refused} wanted {expect['refused']}"
    if "exit" in expect and checked.exit_code != expect["exit"]:
        yield f"exit: got {checked.exit_code} wanted {expect['exit']}"
    if expect.get("diagnostics") == [] and said:
        yield f"got {[str(found) for found in said]} wanted no diagnostics"
    for wanted in expect.get("diagnostics", []):
        if not any(meets(found, wanted) for found in said):
            yield f"got {[str(found) for found in said]} wanted {wanted}"
    order = [next((at for at, found in enumerate(said) if meets(found, wanted)), 0) for wanted in expect.get("diagnostics", [])]
    if order != sorted(order):
        yield "the diagnostics are not in the order of the file"
    script = checked.scripts.get(path)
    yield from in_force(script, expect.get("in_force", {}))
    for keyword in expect.get("absent", []):
        if script and written(script.header, keyword):
            yield f"{keyword} is in force, wanted absent"


def meets(found: Diagnostic, wanted: Facts) -> bool:
    """Same line, column and level, and the suggestion in the message."""
    place = found.range.line == wanted["line"] and found.range.column == wanted.get("column", found.range.column)
    return place and found.severity == wanted.get("level", "error") and str(wanted.get("suggest", "")) in found.message


def in_force(script: Script | None, wanted: Facts) -> Iterator[str]:
    """Each annotation that does not hold as it should."""
    if not wanted or script is None:
        if wanted:
            yield "the script is not loaded"
        return
    for name, value in wanted.items():
        got = held(script.header, name.removesuffix("_between"), value)
        if not is_right(name, got, value):
            yield f"{name}: got {got!r} wanted {value!r}"


def held(header: Header, name: str, wanted: Any) -> object:
    """What the header says, in the words of the cases."""
    read = READINGS.get(name)
    if read is not None:
        return read(header, wanted)
    value = getattr(header.materialize if name in OF_THE_TARGET else header, name)
    return list(value) if isinstance(value, tuple) else value


def columns_in_words(header: Header, wanted: Any) -> object:
    """As the case spells the types, when they are the same types."""
    columns = [[column.name, column.type] for column in header.batch or ()]
    return wanted if columns == [[column, read_type(spelt)] for column, spelt in wanted] else columns


OF_THE_TARGET = {"strategy", "key", "track", "latest", "on_schema_change"}
READINGS: dict[str, Callable[[Header, Any], object]] = {
    "materialize": lambda header, _: (target := header.materialize) and ("manual" if target.strategy == "manual" else target.asset),
    "partitioned": lambda header, _: header.partitioned and header.partitioned.kind,
    "on": lambda header, wanted: [edge_in_words(edge, given) for edge, given in zip(header.edges, wanted, strict=False)],
    "on_count": lambda header, _: len(header.edges),
    "retry": lambda header, _: header.retry and {"count": header.retry.count, "delay_seconds": header.retry.delay_seconds},
    "freshness_seconds": lambda header, _: header.freshness and header.freshness.window_seconds,
    "debounce_seconds": lambda header, _: header.debounce and header.debounce.quiet_seconds,
    "batch": columns_in_words,
    "data_test": lambda header, _: [test_in_words(test) for test in header.data_tests],
}


def edge_in_words(edge: Edge, given: Any) -> object:
    """A URI alone where the case gives no more."""
    if not isinstance(given, dict):
        return edge.uri
    facts = {"uri": edge.uri, "debounce_seconds": edge.debounce and edge.debounce.quiet_seconds, "format": edge.format, "start": edge.start}
    return {name: facts[name] for name in given}


def test_in_words(test: DataTest) -> str:
    """As it is written."""
    match test.name:
        case "accepted_values":
            return f"{test.name} {test.arguments[0]} = {','.join(test.arguments[1:])}"
        case "relationships":
            return f"{test.name} {test.arguments[0]} -> {test.arguments[1]}.{test.arguments[2]}"
        case _:
            return " ".join((test.name, *test.arguments))


def written(header: Header, keyword: str) -> bool:
    """Whether a line of this keyword is in force."""
    return bool(getattr(header, {"on": "edges", "data_test": "data_tests", "column": "columns", "read": "read_pinned"}.get(keyword, keyword)))
