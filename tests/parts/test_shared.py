from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.parts.shared import shared


def test_it_lives_from_its_first_user_to_its_last(tmp_path: Path) -> None:
    happened: list[str] = []

    @contextmanager
    def part(folder: Path) -> Iterator[str]:
        happened.append("begun")
        yield f"{folder.parent.name}, {len(happened)}"
        happened.append("ended")

    for turn in (1, 3):
        first, second = shared(tmp_path / "kafka", part), shared(tmp_path / "kafka", part)
        assert first.__enter__() == second.__enter__() == f"kafka, {turn}"
        with ThreadPoolExecutor() as pool:
            leaving = pool.submit(first.__exit__, None, None, None)
            assert happened[-1] == "begun"
            second.__exit__(None, None, None)
            leaving.result(60.0)
        assert happened[-1] == "ended"
    assert happened == ["begun", "ended"] * 2
