"""The whole tree: `Settings`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

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
from reactor.settings.values import FROZEN, Name, Named, Text

VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=50)]


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
