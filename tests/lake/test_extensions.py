"""Extensions are loaded from their wheels, signed; what has been checked once is loaded again without."""

import shutil
from pathlib import Path

import duckdb
import pytest

from reactor.errors import UsageError
from reactor.lake import extensions
from reactor.lake.extensions import extension_path, opened_duckdb

NAME = "httpfs"


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The extension's file in a wheel of the test's own."""
    package = tmp_path / f"duckdb_extension_{NAME}"
    package.mkdir()
    (package / "__init__.py").touch()
    shutil.copyfile(extension_path(NAME), package / f"{NAME}.duckdb_extension")
    monkeypatch.syspath_prepend(tmp_path)
    return extension_path(NAME)


@pytest.fixture
def nothing_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which nothing has been checked; the folder of its notes."""
    monkeypatch.setattr(extensions, "_seen", set())
    monkeypatch.setattr(extensions, "_NOTES", tmp_path / "notes")
    return tmp_path / "notes"


def forge(file: Path) -> None:
    """One byte of another's making; the signature stays. A file of its own, for the old one may be in memory."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.unlink()
    file.write_bytes(content)


def loaded(connection: duckdb.DuckDBPyConnection) -> bool:
    return connection.execute("SELECT loaded FROM duckdb_extensions() WHERE extension_name = ?", [NAME]).fetchall() == [(True,)]


@pytest.fixture
def opened_unchecked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether DuckDB was told not to check, instance by instance."""
    told, connect = list[bool](), duckdb.connect

    def seen(database: str, config: extensions.Config) -> duckdb.DuckDBPyConnection:
        told.append(bool(config["allow_unsigned_extensions"]))
        return connect(database, config=config)

    monkeypatch.setattr(duckdb, "connect", seen)
    return told


def test_what_one_process_has_checked_the_next_does_not(nothing_known: Path, opened_unchecked: list[bool], wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened_duckdb({}, [NAME]).close()
    assert len(list(nothing_known.iterdir())) == 1
    monkeypatch.setattr(extensions, "_seen", set())  # the next process
    opened_duckdb({}, [NAME]).close()
    assert opened_unchecked == [False, True]
    forge(wheel)
    with pytest.raises(UsageError, match=r"httpfs` cannot be loaded.*signature"):
        opened_duckdb({}, [NAME])
    assert opened_unchecked == [False, True, False]


def test_what_was_replaced_during_the_check_is_not_noted(nothing_known: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its digest was another one's."""
    load = extensions._load

    def replaced(connection: duckdb.DuckDBPyConnection, name: str) -> None:
        genuine = wheel.read_bytes()
        wheel.unlink()
        wheel.write_bytes(genuine)
        load(connection, name)

    monkeypatch.setattr(extensions, "_load", replaced)
    opened_duckdb({}, [NAME]).close()
    assert not nothing_known.exists()


@pytest.mark.usefixtures("wheel")
def test_without_a_place_for_notes_each_process_checks_once(nothing_known: Path, opened_unchecked: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    nothing_known.touch()  # no folder
    for _ in range(2):
        opened_duckdb({}, [NAME]).close()
    monkeypatch.setattr(extensions, "_seen", set())
    opened_duckdb({}, [NAME]).close()
    assert opened_unchecked == [False, True, False]


@pytest.mark.usefixtures("nothing_known")
def test_a_forged_one_is_refused_and_so_is_one_that_takes_the_place_of_a_checked_one(wheel: Path) -> None:
    for _ in range(2):
        with opened_duckdb({}, [NAME]) as connection:
            assert loaded(connection)
    forge(wheel)
    for _ in range(2):
        with pytest.raises(UsageError, match=r"httpfs` cannot be loaded.*signature"):
            opened_duckdb({}, [NAME])


def test_an_instance_that_was_opened_without_the_check_takes_no_unsigned_one(tmp_path: Path) -> None:
    opened_duckdb({}, [NAME]).close()
    forged = tmp_path / "ducklake.duckdb_extension"
    shutil.copyfile(extension_path("ducklake"), forged)
    forge(forged)
    with opened_duckdb({}, [NAME]) as connection:
        assert connection.execute("SELECT current_setting('allow_unsigned_extensions')").fetchall() == [(False,)]
        with pytest.raises(duckdb.InvalidInputException, match="while database is running"):
            connection.execute("SET GLOBAL allow_unsigned_extensions = true")
        with pytest.raises(duckdb.IOException, match="signature"):
            connection.execute(f"LOAD '{forged}'")


def test_a_wheel_that_is_not_installed_is_named() -> None:
    with pytest.raises(UsageError, match="pip install duckdb-extension-nosuch"):
        opened_duckdb({}, ["nosuch"])
