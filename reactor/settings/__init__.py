"""One frozen tree of settings, made of layers, with the origin of every value.

    flag > environment > folder of secrets > profile > reactor.toml > default        load(project, flags=…, environ=…) ─▶ Loaded

*Authority.* `sections` and `tree` say what can be set: a field's type is its bound, its docstring the documentation; `config schema` and
the table in the docs are made from them, and a field that nothing reads yet is marked `LATER` there. `shape` looks at that tree, `document`,
`variables` and `layers` read the layers, `loading` puts them together. Nothing else in Reactor reads the environment for settings.

*Secrets.* In the file and on the command line a secret is only named (`env:NAME`, `file:/path`), so neither a repository nor a process list
holds one. From then on it is a `Secret`, which prints as `***`; an address is a `Url`, which prints without user info and query. A message never
quotes a value of these kinds, and the error that leaves `load` carries no other error with it.

*Failure.* Everything wrong is said at once, as `SettingsError`: place, name, what is wrong, what is allowed or was meant. An unknown key, file or
variable is wrong; only Kubernetes' own variables and those of Reactor's processes are passed over. What depends on several sections is judged
once each of them is right. No `reactor.toml` is no failure: the defaults hold.

This is pydantic without pydantic-settings: its sources keep no origins, let a misspelt variable pass, and warn where the folder of secrets is
absent, so nothing of it would be left.
"""

from reactor.settings.layers import Problem
from reactor.settings.loading import Loaded, SettingsError, Shown, load
from reactor.settings.schema import json_schema
from reactor.settings.tree import Settings
from reactor.settings.values import Secret, Url

__all__ = ["Loaded", "Problem", "Secret", "Settings", "SettingsError", "Shown", "Url", "json_schema", "load"]
