"""The reference part of the documentation, made of the code at each build (a hook of mkdocs): it cannot say what is not so."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.resources import files
from typing import Any, Final

import typer.main
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from typer.core import TyperCommand, TyperGroup

from reactor.cli.entry import VERBS, Verb
from reactor.domain.annotations import KEYWORDS, Keyword
from reactor.domain.inactive import INACTIVE
from reactor.settings import json_schema
from reactor.settings.shape import Leaf, at, leaves
from reactor.telemetry import EVENTS, FIELDS, Telemetry

SCHEMAS: Final = ("asset-updated.v1", "run-result.v1")
HELP_COLUMNS: Final = 100


def on_files(found: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages of the reference."""
    for name, page in PAGES.items():
        found.append(File.generated(config, f"reference/{name}.md", content=page()))
    return found


def annotations_page() -> str:
    """Every keyword: its form, what it says, and what of it waits."""
    return "\n".join(_annotations())


def _annotations() -> Iterator[str]:
    yield "# Annotations\n"
    yield "The leading comment lines of a script, one annotation a line. `reactor check` judges them without a database or a broker.\n"
    for word, keyword in sorted(KEYWORDS.items()):
        says, examples = documented(keyword)
        yield f"## `{word}`\n\n```text\n{keyword.form}\n```\n\n{says}\n"
        if examples:
            yield "```sql\n" + "\n".join(examples) + "\n```\n"
        if keyword.many:
            yield "May stand on several lines.\n"
        for waiting in INACTIVE:
            if waiting.keyword == word:
                yield f"!!! note\n    Known, not active yet: {waiting.feature}.\n"


def verbs_page() -> str:
    """Every verb with its `--help`."""
    return "\n".join(_verbs())


def _verbs() -> Iterator[str]:
    yield "# Verbs\n"
    yield "Exit codes: 0 done, 1 failed or forbidden by the state, 2 usage, settings or script, 3 a dependency does not answer, 4 timeout, 130 Ctrl-C.\n"
    yield "The result is on stdout, everything else on stderr. With `--json` the result is `{\"schema\": \"reactor.cli.<verb>.v1\", \"data\", \"warnings\"}`\n"
    yield "and an error is `application/problem+json` (RFC 9457) on stderr.\n"
    for name, verb in VERBS.items():
        for path, one in commands(name, command_of(verb)):
            yield f"## `reactor {path}`\n\n```text\n{help_of(path, one)}\n```\n"


def command_of(verb: Verb) -> TyperCommand | TyperGroup:
    """A verb, or the group of its verbs."""
    command = typer.main.get_command(import_module(verb.module).app)
    assert isinstance(command, TyperCommand | TyperGroup)
    return command


def commands(name: str, command: TyperCommand | TyperGroup) -> Iterator[tuple[str, TyperCommand]]:
    """A verb and its verbs, by their whole names."""
    if isinstance(command, TyperCommand):
        yield name, command
        return
    for below in command.commands.values():
        assert isinstance(below, TyperCommand | TyperGroup)
        yield from commands(f"{name} {below.name}", below)


def help_of(path: str, command: TyperCommand) -> str:
    """What `--help` prints."""
    context = command.context_class(command, info_name=f"reactor {path}", max_content_width=HELP_COLUMNS, terminal_width=HELP_COLUMNS)
    return command.get_help(context)


def settings_page() -> str:
    """Every setting by section: type, bounds, default, and what it is for."""
    return "\n".join(_settings())


def _settings() -> Iterator[str]:
    schema = json_schema()
    sections: dict[str, list[tuple[str, ...]]] = {}
    for path in leaves():
        sections.setdefault(".".join(_name(key) for key in path[:-1]), []).append(path)
    yield "# Settings\n"
    yield "In `reactor.toml`; one layer wins over the next: flag, environment (`REACTOR_RUN__TIMEOUT_SECONDS`), folder of secrets, profile, file, default.\n"
    yield "`reactor config show` prints each value with its origin, `reactor config schema` prints the JSON Schema that this page is made of.\n"
    for section, paths in sorted(sections.items()):
        yield f"## `[{section}]`\n" if section else "## Above all sections\n"
        for path in sorted(paths):
            leaf = at(path)
            if isinstance(leaf, Leaf):
                yield from _setting(path, leaf.schema, schema)


def _setting(path: Sequence[str], field: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    yield f"### `{_name(path[-1])}`\n"
    facts = [f"{name}: `{json.dumps(field[name])}`" for name in ("default", "enum", "minimum", "exclusiveMinimum", "maximum") if name in field]
    if facts:
        yield ", ".join(facts) + "\n"
    yield (_described(field, schema) or "Any name.") + "\n"
    if field.get("x-active") is False:
        yield "!!! note\n    Known, not active yet.\n"


def _described(field: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    reference = str(field.get("$ref", "")).rpartition("/")[2]
    return str(field.get("description") or schema["$defs"].get(reference, {}).get("description", ""))


def _name(key: str) -> str:
    return "<name>" if key == "*" else key


def events_page() -> str:
    """The schemas of what Reactor publishes."""
    return "\n".join(_events())


def _events() -> Iterator[str]:
    yield "# Events\n"
    yield "What is committed is told: [CloudEvents 1.0](https://cloudevents.io) in structured JSON, at least once; drop an equal `source` and `id`.\n"
    for name in SCHEMAS:
        text = (files("reactor") / "schemas" / f"{name}.json").read_text()
        schema = json.loads(text)
        yield f"## `{schema['title']}`\n\n{schema.get('description', '')}\n\n```json\n{text.strip()}\n```\n"


def metrics_page() -> str:
    """Every metric with its labels."""
    return "\n".join(_metrics())


def _metrics() -> Iterator[str]:
    yield "# Metrics\n"
    yield "At `/metrics` of the health port, in Prometheus' format. `asset` and `source` are URIs; an asset partition is never a label.\n"
    yield "| metric | type | labels | what it says |\n| --- | --- | --- | --- |"
    for name, kind, labels, says in sorted(measured()):
        yield f"| `{name}` | {kind} | {', '.join(labels)} | {says} |"


def logs_page() -> str:
    """Every word that a log line may have as its `event`, and the fields beside it."""
    return "\n".join(_logs())


def _logs() -> Iterator[str]:
    yield "# Logs\n"
    yield "One JSON object a line: `serve` writes them to stdout, the other verbs to stderr; on a terminal they are text. `timestamp`, `severity`, `event` and"
    yield "`message` are always there, the fields below where they are known. Values of rows and secrets are in none. On stderr"
    yield "of `serve` stands only what a library in C says by itself, as PostgreSQL's does when a server dies (`FATAL: ...`).\n"
    yield "| event | says |\n| --- | --- |"
    for event, says in EVENTS.items():
        yield f"| `{event}` | {says} |"
    yield f"\nFields: {', '.join(f'`{name}`' for name in FIELDS)}.\n"


def measured() -> Iterator[tuple[str, str, Sequence[str], str]]:
    """Name as it is scraped, type, labels, meaning."""
    for metric in vars(Telemetry()).values():
        if hasattr(metric, "describe"):
            (family,) = metric.describe()
            yield family.name + ("_total" if family.type == "counter" else ""), family.type, metric._labelnames, family.documentation  # noqa: SLF001


def documented(keyword: Keyword[Any]) -> tuple[str, Sequence[str]]:
    """What a keyword's docstring says, and the lines that it gives as examples."""
    lines = [line.strip() for line in (inspect.getdoc(type(keyword)) or "").splitlines()]
    return "\n".join(line for line in lines if not line.startswith("-- ")), [line for line in lines if line.startswith("-- ")]


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "annotations": annotations_page, "verbs": verbs_page, "settings": settings_page, "events": events_page, "metrics": metrics_page,
    "logs": logs_page,
}
