"""The JSON Schema of `reactor.toml`, which `config schema` prints and the table of settings in the docs is made from."""

from __future__ import annotations

from typing import Any

from reactor.settings.tree import Settings


def json_schema() -> dict[str, Any]:
    """JSON Schema 2020-12. Nothing is required in the file, because every value may come from another layer. `x-active: false`: known, but
    nothing reads it yet.
    """
    tree = Settings.model_json_schema()
    definitions: dict[str, Any] = tree.pop("$defs")
    for definition in (tree, *definitions.values()):
        definition.pop("required", None)
    definitions["Profile"] = {**tree, "title": "Profile", "description": "A part of the tree, laid over the rest of the file where it is chosen."}
    profiles = {
        "type": "object", "additionalProperties": {"$ref": "#/$defs/Profile"}, "default": {},
        "description": "`[profiles.<name>]`: chosen by `--profile` or `REACTOR_PROFILE`. None by default.",
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema", **tree, "title": "reactor.toml",
        "properties": {**tree["properties"], "profiles": profiles}, "$defs": definitions,
    }
