"""AN-25: a keyword is one class, and the parser needs no change for one more."""

from dataclasses import dataclass
from typing import ClassVar

from reactor.domain.annotations import KEYWORDS, Keyword, Line, Word, read_header
from reactor.domain.assets import ProjectNames
from reactor.domain.diagnostics import Malformed
from reactor.domain.project import check_project
from reactor.domain.scripts import ScriptPath

NAMES = ProjectNames()


@dataclass(frozen=True)
class Ownership:
    team: str
    pager: bool

    def execute(self, failed: str) -> str:
        return f"{'page' if self.pager else 'mail'} {self.team}: {failed} failed"


class Owner(Keyword[Ownership]):
    """`owner <team> [pager]`."""

    word: ClassVar[str] = "owner"
    form: ClassVar[str] = "owner <team> [pager]"

    def parse(self, line: Line) -> Ownership:
        pager = line.flag("pager")
        team = line.take("a team", self.team, "")
        line.close()
        return Ownership(team, pager)

    @staticmethod
    def team(word: Word) -> str:
        if not word.text.startswith("@"):
            raise Malformed("a team begins with @", f"@{word.text}")
        return word.text


MORE = {**KEYWORDS, Owner.word: Owner()}


def test_a_new_keyword_is_parsed_compiled_and_executed() -> None:
    [(word, value)] = read_header("-- owner @data pager", NAMES, MORE).header.others
    assert word == "owner"
    assert isinstance(value, Ownership)
    assert value.execute("orders") == "page @data: orders failed"


def test_it_gets_what_every_keyword_gets() -> None:
    reading = read_header("-- owner data\n-- owner @data loud\n-- ownr @data\n-- owner @data\n-- owner @data\n-- owners are asked", NAMES, MORE)
    assert [(f.range.line, f.range.column, f.severity, f.suggestion) for f in reading.findings] == [
        (1, 10, "error", "@data"), (2, 16, "error", None), (3, 4, "error", "owner"), (5, 4, "warning", None),
    ]
    assert reading.malformed == ("owner", "owner", "owner")


def test_without_it_the_line_is_prose() -> None:
    assert not read_header("-- owner @data", NAMES).annotated
    assert check_project({"x.sql": b"-- owner @data\nSELECT 1"}, NAMES).scripts == {}
    checked = check_project({"x.sql": b"-- owner @data\nSELECT 1"}, NAMES, MORE)
    assert checked.scripts[ScriptPath("x.sql")].header.others == (("owner", Ownership("@data", False)),)
