"""Which scripts work together: `macros`, `use`, `on_failure`, `pre_run`."""

from __future__ import annotations

from dataclasses import replace

from reactor.domain.annotations.keyword import Keyword
from reactor.domain.annotations.line import Line
from reactor.domain.annotations.values import script_path
from reactor.domain.scripts import Header


class Macros(Keyword[bool]):
    """`macros`: the file is a library of `CREATE MACRO`, for scripts that `use` it.

    -- macros
    """

    word, form = "macros", "macros"

    def parse(self, line: Line) -> bool:
        """It stands alone."""
        line.close()
        return True

    def compile(self, header: Header, value: bool) -> Header:
        """Make it a library."""
        return replace(header, macros=value)


class Use(Keyword[str]):
    """`use <script>`: the macros of a library.

    -- use lib/money.sql
    """

    word, form, many = "use", "use <script>", True

    def parse(self, line: Line) -> str:
        """The library's path."""
        path = line.take("a script", script_path, "")
        line.close()
        return path

    def compile(self, header: Header, value: str) -> Header:
        """One more library."""
        return replace(header, use=(*header.use, value))


class OnFailure(Keyword[str]):
    """`on_failure <script>`: runs once, after the last attempt has failed.

    -- on_failure alarm.py
    """

    word, form = "on_failure", "on_failure <script>"

    def parse(self, line: Line) -> str:
        """The hook's path."""
        path = line.take("a script", script_path, "")
        line.close()
        return path

    def compile(self, header: Header, value: str) -> Header:
        """The hook of this script."""
        return replace(header, on_failure=value)


class PreRun(Keyword[str]):
    """`pre_run <script>`: runs before each run of this script, in its lane.

    -- pre_run prepare.sql
    """

    word, form = "pre_run", "pre_run <script>"

    def parse(self, line: Line) -> str:
        """The hook's path."""
        path = line.take("a script", script_path, "")
        line.close()
        return path

    def compile(self, header: Header, value: str) -> Header:
        """The hook of this script."""
        return replace(header, pre_run=value)
