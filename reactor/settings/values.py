"""Kinds of values that settings have: secrets, addresses, names, paths. Each says in plain words what it does not take."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Final, Self, TypeVar
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError, ValidationInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import InitErrorDetails, PydanticCustomError, core_schema

from reactor.domain.assets import read_asset
from reactor.domain.diagnostics import Malformed

MASK: Final = "***"
EMBEDDED: Final = "embedded"
"""Stands for a part that `reactor dev`, `make run` or the tests start themselves."""
NAME_CHARACTERS_MAX: Final = 50
"""PostgreSQL cuts identifiers at 63 bytes, and a lake's schema is `lake_<name>`."""

TOGETHER: Final = "together"
"""The type of pydantic's errors that `refuse` makes."""

_TELLTALE = re.compile(r"pass|secret|token|api.?key|(^|[_-])(key|sig|signature)$", re.IGNORECASE)
"""Parameters of an HTTP address that hold secrets; PostgreSQL's are known by name (`sslkey` is a path)."""
_STRANGE = re.compile(r"[\x00-\x1f\x7f]")


class Secret:
    """A text that nobody prints: it shows as `***` wherever it turns up. Only `reveal` gives it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself, for the one call that needs it."""
        return self._text

    def __str__(self) -> str:
        return MASK

    def __repr__(self) -> str:
        return str(self)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.reveal() == self._text

    def __hash__(self) -> int:
        return hash((type(self), self._text))

    @classmethod
    def _read(cls, value: object) -> Self:
        if isinstance(value, cls):
            return value
        if not isinstance(value, str) or not value:
            raise ValueError("a text")
        return cls(value)

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(cls._read, serialization=core_schema.to_string_ser_schema())

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: core_schema.CoreSchema, _handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "pattern": "^(env:[A-Za-z_][A-Za-z0-9_]*|file:.+)$"}


class Url(Secret):
    """An address. It shows without user info and query; without its path too (`hidden`), unless it stands in the file for all to read."""

    __slots__ = ("hidden",)

    def __init__(self, text: str, *, hidden: bool = False) -> None:
        super().__init__(text)
        self.hidden = hidden

    def __str__(self) -> str:
        scheme, mark, rest = self._text.partition("://")
        if not mark:
            return self._text if self._text == EMBEDDED else MASK
        authority = re.split("[/?#]", rest, maxsplit=1)[0]
        if "@" in rest[len(authority):]:  # a password with `/` or `?` in it: who knows where it ends
            return f"{scheme}://{MASK}"
        host, path = authority.rpartition("@")[2], re.split("[?#]", rest[len(authority):], maxsplit=1)[0]
        return f"{scheme}://{host}{f'/{MASK}' if self.hidden else path}"

    @property
    def scheme(self) -> str:
        """`https`, `postgresql` …; empty if there is none."""
        return self._text.partition("://")[0].lower() if "://" in self._text else ""

    @property
    def tells(self) -> str | None:
        """What in this address is a secret (`a password`), if anything is."""
        _, mark, rest = self._text.partition("://")
        before, at, _ = (rest if mark else self._text).rpartition("@")
        if at and (":" in before or not self.scheme.startswith("postgres")):
            return "a password"
        names = [name for name, _ in parse_qsl(self._text.partition("?")[2].partition("#")[0])]
        found = {"password", "sslpassword"}.__contains__ if self.scheme.startswith("postgres") else _TELLTALE.search
        return next((f"a secret (`{name}`)" for name in names if found(name)), None)

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: core_schema.CoreSchema, _handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string"}


def _of_scheme(*schemes: str) -> AfterValidator:
    def check(url: Url) -> Url:
        try:
            parts = urlsplit(url.reveal())
            fits = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(f"an address, {' or '.join(f'`{scheme}://host`' for scheme in schemes)}")
        return url
    return AfterValidator(check)


HttpUrl = Annotated[Url, _of_scheme("http", "https")]


def _postgres(url: Url) -> Url:
    if url.reveal() == EMBEDDED:
        return url
    if url.scheme not in {"postgresql", "postgres"}:
        named = f"`{url.scheme}://` is none" if re.fullmatch(r"[a-z0-9+.-]{1,30}", url.scheme) else "this is no address of one"
        raise ValueError(f"the state and the lakes' catalogs live in PostgreSQL, and {named}: `postgresql://user@host/database`, or `{EMBEDDED}`")
    try:
        urlsplit(url.reveal())
    except ValueError:
        raise ValueError("an address, `postgresql://user@host/database`") from None
    return url


PostgresUrl = Annotated[Url, AfterValidator(_postgres)]


def _plain(text: str) -> str:
    if not text.strip() or _STRANGE.search(text):
        raise ValueError("a text that is not empty and holds no control characters")
    return text


Port = Annotated[int, Field(ge=1, le=65_535)]
Text = Annotated[str, AfterValidator(_plain)]


@dataclass(frozen=True, slots=True)
class Form:
    """Texts that match a pattern whole; `said`: the pattern in words."""

    pattern: str
    said: str

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(schema), "pattern": f"^({self.pattern})$"}

    def _check(self, text: str) -> str:
        if not re.fullmatch(self.pattern, text):
            raise ValueError(self.said)
        return text


Name = Annotated[str, Form(
    rf"(?=.{{1,{NAME_CHARACTERS_MAX}}}$)[A-Za-z0-9]([_-]?[A-Za-z0-9])*",
    f"letters, digits and single `_` or `-` between them, at most {NAME_CHARACTERS_MAX}",
)]
"""Two `_` would separate the parts of an environment variable."""


def in_project(text: str, info: ValidationInfo) -> str:
    """A path in full: relative ones start at the project (`context["project"]`)."""
    if text.startswith("~"):
        raise ValueError("a path in full, or relative to the project (`~` means nothing here)")
    project = (info.context or {}).get("project")
    return str(Path(project, text).absolute()) if project is not None else text


def _path(given: object, info: ValidationInfo) -> Path:
    if not isinstance(given, str | Path):
        raise ValueError("a path")  # noqa: TRY004  (pydantic lets a TypeError pass)
    return Path(in_project(_plain(str(given)), info))


ProjectPath = Annotated[Path, BeforeValidator(_path)]


def _command(text: str, info: ValidationInfo) -> str:
    return in_project(text, info) if "/" in text else text


Command = Annotated[Text, AfterValidator(_command)]
"""A path, or a word that is looked for on `PATH`."""


def _data_path(text: str, info: ValidationInfo) -> str:
    scheme, mark, rest = text.partition("://")
    if not mark:
        return in_project(text, info)
    if scheme != "s3" or not re.fullmatch(r"[a-z0-9][a-z0-9.-]+(/[^?#@]*)?", rest):
        raise ValueError("a folder, or `s3://bucket/prefix`")
    return text.rstrip("/")


DataPath = Annotated[Text, AfterValidator(_data_path)]


def holds(outer: str, inner: str) -> bool:
    """Whether a data path is another one, or a folder above it."""
    above, below = _steps(outer), _steps(inner)
    return below[:len(above)] == above


def _steps(path: str) -> tuple[str, ...]:
    if "://" in path:
        return ("s3:", *(step for step in path.split("/")[2:] if step))
    return Path(path).resolve().parts


def _servers(text: str) -> str:
    if text == EMBEDDED:
        return text
    for server in text.split(","):
        found = re.fullmatch(r"\s*([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?\s*", server)
        if found is None or not 0 < int(found[2] or 9092) < 65536:
            raise ValueError(f"brokers as `host:port`, several separated by commas, or `{EMBEDDED}`")
    return ",".join(server.strip() for server in text.split(","))


Servers = Annotated[str, AfterValidator(_servers)]


def _offset_reset(given: object) -> object:
    if given in ("earliest", "latest"):
        return given
    try:
        instant = given if isinstance(given, datetime) else datetime.fromisoformat(str(given).upper())
        if instant.tzinfo is not None:
            return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError):
        pass
    raise ValueError("`earliest`, `latest`, or an instant with its zone: `2026-03-01T00:00:00Z`")


OffsetReset = Annotated[str, BeforeValidator(_offset_reset)]


def _asset(text: str) -> str:
    try:
        return read_asset(text).uri
    except Malformed as malformed:
        instead = f"; did you mean `{malformed.suggestion}`?" if malformed.suggestion else ""
        raise ValueError(f"{malformed.message}{instead}") from None


AssetUri = Annotated[str, AfterValidator(_asset)]

Value = TypeVar("Value")


def refuse(*wrong: tuple[tuple[str, ...], str]) -> None:
    """Refuse what several fields say together: each time the field that is to be changed, and why. Raises pydantic's error."""
    if wrong:
        details = [InitErrorDetails(type=PydanticCustomError(TOGETHER, "{said}", {"said": said}), loc=path, input=None) for path, said in wrong]
        raise ValidationError.from_exception_data("settings", details)


class _Frozen:
    """A mapping that nobody changes, dumped as any other."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        dumping = core_schema.wrap_serializer_function_ser_schema(lambda given, dump: dump(dict(given)))
        return core_schema.no_info_after_validator_function(lambda given: MappingProxyType(dict(given)), handler(source), serialization=dumping)

    def __get_pydantic_json_schema__(self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(schema), "additionalProperties": False}


FROZEN: Final = _Frozen()
Named = Annotated[Mapping[Name, Value], FROZEN]
"""Sections that the user names: `[kafka.<name>]`."""
