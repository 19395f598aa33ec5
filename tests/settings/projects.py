"""A folder with a `reactor.toml` and a folder of secrets, to be loaded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from reactor.errors import UsageError
from reactor.settings import Loaded, SettingsError, load


class Project:
    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        self.folder.mkdir()
        self.secrets = folder / "secrets"

    def file(self, text: str) -> Project:
        (self.folder / "reactor.toml").write_text(text)
        return self

    def secret(self, name: str, text: str) -> Project:
        self.secrets.mkdir(exist_ok=True)
        (self.secrets / name).write_text(text)
        return self

    def load(self, environ: Mapping[str, str] | None = None, profile: str | None = None, **flags: object) -> Loaded:
        named = {name.replace("__", "."): value for name, value in flags.items()}
        return load(self.folder, flags=named, environ=environ or {}, profile=profile, secrets_dir=self.secrets)

    def problems(self, environ: Mapping[str, str] | None = None, profile: str | None = None, **flags: object) -> list[str]:
        with pytest.raises(SettingsError) as raised:
            self.load(environ, profile, **flags)
        assert isinstance(raised.value, UsageError)
        assert str(raised.value) == "\n".join(map(str, raised.value.problems))
        return [str(problem).removeprefix(f"{self.folder}/") for problem in raised.value.problems]
