"""No test lets time pass but by waiting for a condition. (A program that shows an outage of a minute, `__main__.py`, is no test.)"""

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
WAITING = TESTS / "parts" / "waiting.py"


def sleeps(path: Path) -> Iterator[str]:
    """Calls of any `sleep`, but for a turn of the event loop (`sleep(0)`). What a string holds is a program, not a test."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            a_turn = len(node.args) == 1 and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0
            if name == "sleep" and not a_turn:
                yield f"{path.relative_to(TESTS)}:{node.lineno}"


def test_tests_do_not_sleep() -> None:
    found = [place for path in sorted(TESTS.rglob("*.py")) if path != WAITING and path.name != "__main__.py" for place in sleeps(path)]
    assert not found


def test_a_sleep_is_found() -> None:
    assert list(sleeps(WAITING))
