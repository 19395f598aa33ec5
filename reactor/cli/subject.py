"""What a user means by a name: a script, the asset that it makes, or a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from reactor.domain.assets import LakeTable, read_asset, resolved
from reactor.domain.scripts import Script, ScriptPath
from reactor.domain.spelling import nearest
from reactor.errors import UsageError
from reactor.project import Opened, names_of, path_in

Kind = Literal["asset", "script", "stream"]


@dataclass(frozen=True, slots=True)
class Subject:
    """`name`: a canonical URI, or the path of a script that makes no asset that is meant. `why`: why its script does not run.

    `script` None: no script makes it, or the script is refused (then `path` names it).
    """

    name: str
    kind: Kind
    script: Script | None = None
    path: str | None = None
    why: Sequence[str] = ()

    @property
    def consumer(self) -> str:
        """Under which name positions, runs and decisions are kept."""
        return self.script.consumer if self.script else self.name

    @property
    def asset(self) -> str | None:
        """The table that is made, or meant."""
        target = self.script.header.materialize if self.script else None
        return target.asset if target else self.name if self.kind == "asset" else None


def subject_of(opened: Opened, text: str) -> Subject:
    """What is meant by a URI, the path of a script, or the name of a table alone. Raises `UsageError`, with what is near."""
    checked = opened.checked
    if "://" in text:
        asset = resolved(read_asset(text), names_of(opened.project.settings))
        return Subject(asset.uri, "stream") if asset.scheme == "kafka" else _made(opened, asset.uri)
    path = ScriptPath(path_in(opened.project.folder, text))
    if path in checked.scripts:
        return Subject(path, "script", checked.scripts[path], path, checked.inactive.get(path, ()))
    if path in checked.refused:
        return Subject(path, "script", None, path, checked.refused[path])
    tables = {uri: LakeTable.parse(uri) for uri in checked.lineage.producers if uri.startswith("ducklake://")}
    found = [uri for uri, table in tables.items() if text.lower() in {table.table, f"{table.schema}.{table.table}"}]
    if len(found) == 1:
        return _made(opened, found[0])
    close = nearest(text, (*checked.scripts, *tables, *(table.table for table in tables.values())))
    hint = f"it may be {' or '.join(found)}" if found else f"did you mean {close}?" if close else "reactor list shows the scripts and assets there are"
    raise UsageError(f"{text} is neither an asset nor a script of this project", hint=hint)


def _made(opened: Opened, uri: str) -> Subject:
    checked = opened.checked
    makers = [checked.scripts[path] for path in checked.lineage.producers.get(uri, ())]
    script = makers[0] if len(makers) == 1 else None
    return Subject(uri, "asset", script, script.path, checked.inactive.get(script.path, ())) if script else Subject(uri, "asset")
