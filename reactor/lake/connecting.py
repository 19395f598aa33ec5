"""How somebody reads the lakes without Reactor: the statements for a plain DuckDB. Text only, without secrets.

*Who may read* (FH-10). The catalog of a lake has version `CATALOG_VERSION` of DuckLake's format, which `READERS` understand. Reactor attaches a
catalog of another version nowhere, and never migrates one by itself, because older readers would be locked out: `reactor maintain
--migrate-catalog` does, when it is told to. A reader attaches READ_ONLY, so it cannot migrate either.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reactor.lake.session import LakeSettings, connection_text
from reactor.lake.statements.quoting import identifier, literal

CATALOG_VERSION = "1.0"
READERS = "DuckDB 1.5.2 or a later 1.5, with the extension ducklake that it installs"

_OURS = frozenset({"application_name", "connect_timeout", "sslpassword"})
"""Of the service's own connection: not what a reader should be called, and a secret."""


@dataclass(frozen=True, slots=True)
class Reader:
    """What a plain DuckDB has to be told. `lakes`: lake → its ATTACH; `setup`: what comes before, once in each session."""

    setup: Sequence[str]
    lakes: Mapping[str, str]
    password: bool

    @property
    def statements(self) -> Sequence[str]:
        """All of it."""
        return [*self.setup, *self.lakes.values()]

    @property
    def python(self) -> Sequence[str]:
        """The same for Python, line by line."""
        return ["import duckdb", "lakes = duckdb.connect()", *(f"lakes.execute({json.dumps(s, ensure_ascii=False)})" for s in self.statements)]


def reader_of(postgres_url: str, lakes: Mapping[str, LakeSettings], user: str | None = None) -> Reader:
    """`user`: a role of PostgreSQL that stands for the service's own. Raises `UsageError` for a URL that is not PostgreSQL's."""
    text, password = connection_text(postgres_url, _OURS, user)
    stores = any(settings.folder is None for settings in lakes.values())
    setup = ["INSTALL ducklake;", "INSTALL postgres;", *(["INSTALL httpfs;", "INSTALL aws;", "CREATE SECRET (TYPE s3, PROVIDER credential_chain);"] if stores else [])]
    attach = {
        lake: f"ATTACH {literal('ducklake:postgres:' + text)} AS {identifier(f'lake_{lake}')} (METADATA_SCHEMA {literal(f'lake_{lake}')}, READ_ONLY);"
        for lake in lakes}
    return Reader(setup, attach, password is not None or user is not None)
