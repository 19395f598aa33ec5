"""The README says only what is so: its scripts pass `check`, its verbs and files exist, its DuckDB lines read a lake."""

import re
from pathlib import Path

import duckdb
import pytest

from reactor.cli.entry import VERBS
from reactor.domain.annotations import KEYWORDS
from reactor.domain.assets import ProjectNames
from reactor.domain.project import check_project
from reactor.lake.extensions import extension_path
from reactor.lake.session import Instance, InstanceSettings, LakeSettings

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_its_scripts_are_a_pipeline() -> None:
    scripts = {f"{n}.sql": text.encode() for n, (kind, text) in enumerate(BLOCKS) if kind == "sql" and text.startswith("-- pipeline")}
    checked = check_project(scripts, ProjectNames(clusters=("main",)))
    assert (len(checked.scripts), checked.diagnostics, checked.inactive) == (2, (), {})
    assert sum(len(text.splitlines()) for text in scripts.values()) <= 15


def test_its_verbs_targets_annotations_and_files_exist() -> None:
    prose = re.sub(r"^```.*?^```", "", README, flags=re.MULTILINE | re.DOTALL)
    code = re.findall(r"`([^`\n]+)`", prose) + [line for kind, text in BLOCKS if not kind for line in text.splitlines()]
    verbs = {found[1] for line in code if (found := re.match(r"(?:\S*/)?reactor ([a-z]+)", line))}
    assert {"explain", "query", "doctor"} <= verbs <= VERBS.keys()
    targets = {found[1] for line in code if (found := re.match(r"make ([a-z-]+)", line))}
    assert {"run", "first-hour", "chaos"} <= targets <= set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    listed = re.search(r"annotations work: `(.*?)`", README)
    assert listed is not None
    assert set(re.sub(r"\(.*?\)", "", listed[1]).split()) <= KEYWORDS.keys()
    for link in re.findall(r"\]\((?!https:)(.*?)\)", README):
        assert (ROOT / link).exists(), link


@pytest.mark.postgres
def test_its_lines_for_duckdb_read_a_lake(database: str, lake_folder: Path) -> None:
    instance = Instance(InstanceSettings(database, {"main": LakeSettings(str(lake_folder))}, "main"))
    with instance.lent("writing") as cursor:
        cursor.execute("CREATE TABLE orders_daily AS SELECT 1 AS id")
        cursor.execute("CREATE TABLE orders AS SELECT 1 AS id")
        cursor.execute("INSERT INTO orders SELECT 2")
    instance.retire()
    (lines,) = (text for kind, text in BLOCKS if kind == "sql" and "ATTACH" in text)
    where = re.fullmatch(r"postgresql://(.+)@(.+):(\d+)/(.+)", database)
    assert where is not None
    lines = lines.replace("INSTALL ducklake; INSTALL postgres;", "".join(f"LOAD '{extension_path(e)}';" for e in ("ducklake", "postgres_scanner")))
    lines = lines.replace("<port>", where[3]).replace("dbname=reactor", f"dbname={where[4]}").replace("VERSION => 20", "VERSION => 2")
    with duckdb.connect() as connection:
        for statement in lines.split(";\n"):
            answer = connection.execute(statement)
        assert answer.fetchall() == [(1,)]
