"""The sizes that this house keeps."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("reactor", "connectors", "tests", "bench", "docs", "examples")
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
NAMES_THAT_SAY_NOTHING = {"utils", "util", "common", "helpers", "manager", "base", "misc"}


def files() -> Iterator[Path]:
    return (file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py")) if ".venv" not in file.parts and ".reactor" not in file.parts)


def test_files_are_short_and_named_for_what_is_in_them() -> None:
    assert {str(f.relative_to(ROOT)): n for f in files() if (n := len(f.read_text().splitlines())) > FILE_LINES_MAX} == {}
    assert [str(f.relative_to(ROOT)) for f in files() if f.stem in NAMES_THAT_SAY_NOTHING] == []


def test_functions_are_short() -> None:
    lengths = {
        f"{file.relative_to(ROOT)}:{node.lineno} {node.name}": lines
        for file in files() for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    }
    assert lengths == {}
