"""The sections of `reactor.toml`, each with its fields: unit in the name, bound, default; the docstring says what it does and why the default.

What the user reads (`config schema`, the table of settings in the docs) is made from these classes and docstrings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import permutations
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, model_validator

from reactor.domain.assets import LAKES_RESERVED
from reactor.settings.values import (
    EMBEDDED,
    NAME_CHARACTERS_MAX,
    AssetUri,
    Command,
    DataPath,
    Form,
    HttpUrl,
    Named,
    OffsetReset,
    Port,
    PostgresUrl,
    ProjectPath,
    Secret,
    Servers,
    Text,
    Url,
    holds,
    refuse,
)

LATER: Final[dict[str, Any]] = {"x-active": False}
"""Marks a field that is known, but that nothing reads yet: `json_schema_extra=LATER`. Whoever sets it is told."""
LAKE_NAME: Final = r"[a-z0-9]([_-]?[a-z0-9])*"
DAY_SECONDS: Final = 86_400


class Section(BaseModel):
    """A table of `reactor.toml`: frozen, and an unknown key is an error."""

    entry: ClassVar[type[Section] | None] = None
    """What the user may name beside the fields."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, hide_input_in_errors=True, allow_inf_nan=False,
    )


def none_named() -> Mapping[str, Any]:
    """The default of a table of named sections."""
    return MappingProxyType({})


class State(Section):
    """`[state]`: the PostgreSQL database that holds Reactor's state and the catalogs of all lakes."""

    url: PostgresUrl = Url(EMBEDDED)
    """Address of the database, `postgresql://user@host:5432/database`; with a password it is a secret. `embedded`, the default: a private
    PostgreSQL in `.reactor/postgres`, which `reactor dev` and `make run` start, so that a laptop needs nothing else."""

    @property
    def embedded(self) -> bool:
        """Whether the private PostgreSQL is meant."""
        return self.url.reveal() == EMBEDDED


class Lake(Section):
    """`[lakes.<name>]`: a DuckLake. Its catalog is the schema `lake_<name>` of the state database."""

    data_path: DataPath
    """Where the Parquet files lie: a folder (relative to the project) or `s3://bucket/prefix`. It cannot change once the lake exists. Default
    `.reactor/lake/<name>`, so that a project starts without settings."""

    watch_external: bool = False
    """Whether commits of other tools fire scripts. Off by default, because their events tell neither rows nor asset partition."""


class Lakes(Section):
    """`[lakes]`: the lakes by name. None configured: `main` in `.reactor/lake/main`."""

    entry: ClassVar[type[Section] | None] = Lake
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Lake] = Field(init=False)

    default: Text = "main"
    """The lake that is every session's database, whose tables need no lake's name. `main` by default, as in `ducklake://main/…`."""

    @property
    def named(self) -> Mapping[str, Lake]:
        """The lakes by name; at least the default one."""
        return MappingProxyType(self.__pydantic_extra__)

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, given: object) -> object:
        """Data paths by default, and the lake `main` if there is none."""
        if not isinstance(given, Mapping):
            return given
        tables = {name: table for name, table in given.items() if name != "default"} or {"main": {}}
        filled = {n: {"data_path": f".reactor/lake/{n}", **table} if isinstance(table, Mapping) else table for n, table in tables.items()}
        return {name: value for name, value in given.items() if name == "default"} | filled

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        refuse(*(((name,), said) for name in self.named if (said := _no_lake(name))))
        if self.default not in self.named:
            refuse((("default",), f"no lake `{self.default}` is configured; there is {', '.join(f'`{n}`' for n in self.named)}"))
        home = f"{(info.context or {}).get('project', '.')}/.reactor"
        refuse(*(
            ((name, "data_path"), "it holds the project or its `.reactor`: give the lake a folder of its own")
            for name, lake in self.named.items() if holds(lake.data_path, home)
        ))
        refuse(*(
            ((inner, "data_path"), f"it lies in that of lake `{outer}`: cleaning one lake would delete files of the other")
            for (outer, above), (inner, below) in permutations(self.named.items(), 2) if holds(above.data_path, below.data_path)
        ))
        return self


def _no_lake(name: str) -> str | None:
    """Why a lake cannot be called so."""
    if name in LAKES_RESERVED:
        return f"no lake can be called `{name}`: DuckDB keeps that name for itself"
    if re.fullmatch(LAKE_NAME, name) and len(name) <= NAME_CHARACTERS_MAX:
        return None
    return f"a lake's name is lower-case letters, digits and single `_` or `-` between them, at most {NAME_CHARACTERS_MAX}"


class Kafka(Section):
    """`[kafka.<name>]`: a Kafka cluster, `kafka://<name>/topic` in scripts."""

    bootstrap_servers: Servers = EMBEDDED
    """Brokers to ask first, `host:port`, several separated by commas. `embedded`, the default: a broker that `reactor dev` and `make run`
    start; it keeps nothing when it stops."""

    group_id: Text | None = None
    """The consumer group. Default `reactor-<installation>-<workspace>`, so that two installations on one cluster do not share a group."""

    auto_offset_reset: OffsetReset = "earliest"
    """Where a script without a position starts: `earliest`, `latest`, or an instant such as `2026-03-01T00:00:00Z`. `earliest` by default,
    because a new table should hold all that there is. A script's own `start=` comes first."""

    registry_url: HttpUrl | None = Field(default=None, json_schema_extra=LATER)
    """Address of the schema registry for `format=avro` and `format=protobuf`. None by default: JSON needs none."""

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """How brokers are spoken to. `PLAINTEXT` by default, as brokers themselves start."""

    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "PLAIN"
    """How the user is proven to the broker; only with `SASL_PLAINTEXT` or `SASL_SSL`. `PLAIN` by default, which hosted clusters expect."""

    sasl_username: Text | None = None
    """The user; needed with `SASL_PLAINTEXT` and `SASL_SSL`."""

    sasl_password: Secret | None = None
    """The user's password, a secret; needed with `SASL_PLAINTEXT` and `SASL_SSL`."""

    ca_path: ProjectPath | None = None
    """PEM file of the authorities that sign the brokers' certificates. Default: those of the system."""

    certificate_path: ProjectPath | None = None
    """PEM file of the client's certificate, where the brokers ask for one."""

    key_path: ProjectPath | None = None
    """PEM file of the certificate's key. Default: it stands in the file of the certificate."""

    @property
    def embedded(self) -> bool:
        """Whether the embedded broker is meant."""
        return self.bootstrap_servers == EMBEDDED

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.embedded and self.security_protocol != "PLAINTEXT":
            refuse((("security_protocol",), f"the embedded broker speaks PLAINTEXT, not {self.security_protocol}: set `bootstrap_servers`"))
        if self.security_protocol.startswith("SASL"):
            needed = {"sasl_username": self.sasl_username, "sasl_password": self.sasl_password}
            refuse(*(((name,), f"it is missing: {self.security_protocol} needs it") for name, value in needed.items() if value is None))
        if self.key_path is not None and self.certificate_path is None:
            refuse((("key_path",), "it is the key of a certificate: set `certificate_path`"))
        return self


class Store(Section):
    """`[stores.<name>]`: an object store, `s3://<name>/key` in scripts. Credentials come from the usual chain of S3 clients."""

    endpoint_url: HttpUrl | None = None
    """Address of the S3 service. Default: Amazon's for the region."""

    bucket: Annotated[str, Form(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", "3 to 63 lower-case letters, digits, `.` and `-`")]
    """The bucket. It has no default."""

    reconcile_interval_seconds: float = Field(default=3600.0, ge=60, le=7 * DAY_SECONDS)
    """Seconds between two listings that find what no notification told. An hour by default: listings cost money."""


class Debounce(Section):
    """`[debounce]`: how long the records of a stream gather before a run, where a script has no `debounce` line."""

    quiet_seconds: float = Field(default=2.0, ge=0, le=DAY_SECONDS)
    """Seconds without a new record after which a slice is due. Short by default, because fresh tables are the purpose."""

    wait_max_seconds: float = Field(default=30.0, ge=0, le=7 * DAY_SECONDS)
    """Seconds after its first record at which a slice is due even if records keep coming. Keeps a busy topic from waiting for ever."""

    rows_max: int = Field(default=100_000, ge=1, le=100_000_000)
    """Rows at which a slice is due at once. By default the size up to which one Parquet file is written well."""

    bytes_max: int = Field(default=134_217_728, ge=1024, le=2**40)
    """Bytes at which a slice is due at once. 128 MiB by default, for records that are large and few."""

    open_bytes_max: int = Field(default=268_435_456, ge=1024, le=2**40)
    """Bytes that all open slices together may hold in memory; above it the oldest is due at once. 256 MiB by default, for a small container."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.wait_max_seconds < self.quiet_seconds:
            refuse((("wait_max_seconds",), f"{self.wait_max_seconds:g} is less than `quiet_seconds`, {self.quiet_seconds:g}"))
        return self


class Run(Section):
    """`[run]`: what every run keeps to."""

    timeout_seconds: float = Field(default=3600.0, gt=0, le=7 * DAY_SECONDS)
    """Seconds after which a run fails. An hour by default: longer is more often a mistake than a need."""

    drain_seconds: float = Field(default=90.0, ge=0, le=3600)
    """Seconds that running runs have to end when the service stops; the rest is done again. Below the 120 s that Kubernetes is told to wait."""

    program_memory_bytes_max: int | None = Field(default=None, ge=64 * 1024 * 1024, le=2**50)
    """Bytes of address space that each process of a program may have, so that one cannot take the machine from the others. Without limit by
    default, since what a program needs is not known here."""

    skip_unchanged: bool = True
    """Whether a replace by the very rows that are there writes nothing, so that nobody downstream is fired. On by default."""


class Token(Section):
    """`[http.tokens.<name>]`: a bearer token of the HTTP API; its name is the actor of what it asks for."""

    sha256: Annotated[str, Form(r"[0-9a-f]{64}", "64 hexadecimal digits in lower case")]
    """SHA-256 of the token, 64 hexadecimal digits; the token itself is kept nowhere. It has no default."""

    role: Literal["viewer", "operator", "admin"] = "viewer"
    """What its bearer may do. `viewer` by default, the least."""


class Oidc(Section):
    """`[http.oidc]`: bearers of JWTs that an OpenID provider has signed."""

    issuer_url: HttpUrl
    """Address of the provider, as in the token's `iss`. It has no default."""

    audience: Text
    """What the token's `aud` must name. It has no default."""

    role_claim: Text = "role"
    """The claim that holds `viewer`, `operator` or `admin`."""


class Http(Section):
    """`[http]`: the HTTP API with the console, and the health endpoints."""

    host: Text = "127.0.0.1"
    """Address to listen on. This machine alone by default; another one needs `tokens` or `oidc`."""

    port: Port = Field(default=8080, json_schema_extra=LATER)
    """Port of the API and the console. Where it is not set and 8080 is taken, the next free one."""

    health_port: Port = 8081
    """Port of `/livez`, `/readyz`, `/startupz`, `/metrics`, `/version`. Where it is not set and 8081 is taken, the next free one."""

    tokens: Named[Token] = Field(default_factory=none_named, json_schema_extra=LATER)
    """Who may use the API, by bearer token. None by default: this machine alone."""

    oidc: Oidc | None = Field(default=None, json_schema_extra=LATER)
    """Who may use the API, by OpenID provider. None by default."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.port == self.health_port:
            refuse((("health_port",), f"`port` is {self.port} too"))
        if self.host not in {"127.0.0.1", "::1", "localhost"} and not self.tokens and self.oidc is None:
            refuse((("host",), f"{self.host} opens the API to other machines: set `tokens` or `oidc`, or leave it at 127.0.0.1"))
        return self


class Publisher(Section):
    """`[publishers.<name>]`: where asset-updated events are sent, besides the outbox."""

    kind: Literal["kafka", "webhook"]
    """A Kafka topic, or an HTTP endpoint. It has no default."""

    cluster: Text | None = None
    """Kafka: the cluster, a `[kafka.<name>]`. Default: the only one there is."""

    topic: Annotated[str, Form(r"[A-Za-z0-9._-]{1,249}", "letters, digits, `.`, `_` and `-`, at most 249")] = "reactor.asset.updated"
    """Kafka: the topic."""

    url: HttpUrl | None = Field(default=None, json_schema_extra=LATER)
    """Webhook: the address that is posted to; a secret if it tells one. Needed for a webhook."""

    secret: Secret | None = Field(default=None, json_schema_extra=LATER)
    """Webhook: the secret of the HMAC-SHA256 over time and body. Needed for a webhook."""

    assets: tuple[AssetUri, ...] = ()
    """URIs of the assets whose events are sent. Default: all."""

    types: tuple[Literal["reactor.asset.updated.v1"], ...] = ()
    """Types of the events that are sent. Default: all."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        others, needed = (("url", "secret"), ()) if self.kind == "kafka" else (("cluster", "topic"), ("url", "secret"))
        refuse(
            *(((name,), f"a publisher of kind `{self.kind}` has none") for name in others if name in self.model_fields_set),
            *(((name,), f"it is missing: a {self.kind} needs it") for name in needed if getattr(self, name) is None),
        )
        return self


class OpenLineage(Section):
    """`[openlineage]`: run events for a lineage server."""

    url: HttpUrl | None = None
    """Address of the server. None by default: nothing is sent."""

    queue_events_max: int = Field(default=1000, ge=1, le=1_000_000)
    """Events that wait for a slow server; the oldest is dropped and counted. Bounded, because lineage must never delay a run."""


class Alerting(Section):
    """`[alerting]`: alerts without a Prometheus."""

    alertmanager_url: HttpUrl | None = None
    """Address of an Alertmanager that is told of stale and expiring assets. None by default: Prometheus has the rules."""


class Log(Section):
    """`[log]`: what is logged, and how."""

    format: Literal["auto", "json", "text"] = "auto"
    """Lines of JSON, or text. `auto`, the default: text on a terminal, else JSON."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least severity that is logged. `debug` adds a line for each event that is published."""


class Resources(Section):
    """`[resources]`: what DuckDB may use. None: what the container allows."""

    memory_limit_bytes: int | None = Field(default=None, ge=64 * 2**20, le=2**50)
    """Bytes of memory for DuckDB, at least 64 MiB; above it, it spills to `temp_path`. A run that makes a table has as much to itself. Default: a part of what
    the container has."""

    threads: int | None = Field(default=None, ge=1, le=1024)
    """Threads of DuckDB. Default: the container's cores but one, which is left to reading; at least one."""

    temp_path: ProjectPath | None = None
    """Folder that DuckDB spills to, each process and run into one of its own there. Default: the folder in which the service was started."""


class Runner(Section):
    """`[runners.<name>]`: who runs programs. `python` and `shell` replace the built-in ones; any other name is a suffix (`ts`)."""

    interpreter: Command
    """The program that runs the script: a path (relative to the project) or a word on `PATH`. Default of `python`: the interpreter of the
    service, with its packages; another one, `.venv/bin/python`, has its own, and Reactor need not be among them. Of `shell`: `/bin/sh`; others
    have none."""


class Notify(Section):
    """`[notify.<name>]`: people who are told."""

    url: HttpUrl
    """The address that is posted to; a secret if it tells one. It has no default."""

    on: tuple[Literal["run.failed", "data_test.failed", "freshness.changed"], ...] = ("run.failed", "freshness.changed")
    """What they are told of."""

    template: Literal["slack", "json"] = "json"
    """The shape of the body: Slack's, or the event as it is."""
