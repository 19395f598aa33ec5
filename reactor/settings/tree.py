"""The whole tree: `Settings`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import Field, model_validator

from reactor.settings.sections import (
    LATER,
    Alerting,
    Debounce,
    Http,
    Kafka,
    Lakes,
    Log,
    Notify,
    OpenLineage,
    Publisher,
    Resources,
    Run,
    Runner,
    Section,
    State,
    Store,
    none_named,
)
from reactor.settings.values import FROZEN, Form, Name, Named, Text, refuse

VariableName = Annotated[str, Form(r"[A-Za-z_][A-Za-z0-9_]{0,49}", "letters, digits and `_`, at most 50")]


class Settings(Section):
    """Everything that can be set, top level first. Frozen and valid by construction."""

    installation: Name = "local"
    """Name of this installation, in event ids and sources. Fixed at the first start, because ids are made from it."""

    workspace: Name = "prod"
    """Name of the data environment. Fixed at the first start, because event ids are made from it."""

    replica_id: Name | None = None
    """Name of this process among its replicas, which makes its Kafka membership static: a restart costs no rebalance, a clean stop a session.
    It must be another one in each replica. None by default."""

    state: State = Field(default_factory=State)
    lakes: Lakes = Field(default_factory=Lakes)
    kafka: Named[Kafka] = Field(default_factory=none_named)
    stores: Named[Store] = Field(default_factory=none_named, json_schema_extra=LATER)
    debounce: Debounce = Field(default_factory=Debounce)
    run: Run = Field(default_factory=Run)
    http: Http = Field(default_factory=Http)
    publishers: Named[Publisher] = Field(default_factory=none_named)
    openlineage: OpenLineage = Field(default_factory=OpenLineage, json_schema_extra=LATER)
    alerting: Alerting = Field(default_factory=Alerting, json_schema_extra=LATER)
    log: Log = Field(default_factory=Log)
    resources: Resources = Field(default_factory=Resources)
    runners: Named[Runner] = Field(default_factory=none_named)
    variables: Annotated[Mapping[VariableName, bool | int | float | Text], FROZEN] = Field(default_factory=none_named, json_schema_extra=LATER)
    """Values for scripts: `getvariable('<name>')` in SQL, `WM_VAR_<name>` for programs. They are no secrets: SQL shows them."""

    notify: Named[Notify] = Field(default_factory=none_named, json_schema_extra=LATER)

    def group_id(self, cluster: str) -> str:
        """The consumer group on a configured cluster."""
        return self.kafka[cluster].group_id or f"reactor-{self.installation}-{self.workspace}"

    @model_validator(mode="after")
    def _check(self) -> Self:
        clusters = ", ".join(f"`{name}`" for name in self.kafka) or "none: it is a section `[kafka.<name>]`"
        for name, publisher in self.publishers.items():
            if publisher.kind == "kafka" and publisher.cluster is None and len(self.kafka) != 1:
                refuse((("publishers", name, "cluster"), f"it is missing, and not exactly one cluster is configured; there is {clusters}"))
            if publisher.cluster is not None and publisher.cluster not in self.kafka:
                refuse((("publishers", name, "cluster"), f"no cluster `{publisher.cluster}` is configured; there is {clusters}"))
        builtin = {"py": "python", "sh": "shell"}
        refuse(*((("runners", name), f"the runner of such programs is called `{builtin[name]}`") for name in self.runners if name in builtin))
        return self
