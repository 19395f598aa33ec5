"""How a Kafka cluster is reached: one set of settings for the source, the readers, the publisher and `doctor`."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from aiokafka import errors as kafka
from aiokafka.structs import TopicPartition

from reactor.domain.spans import SourcePartition
from reactor.errors import Outage, UsageError

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]

REFUSED = (
    kafka.AuthenticationFailedError,
    kafka.SaslAuthenticationFailed,
    kafka.AuthenticationMethodNotSupported,
    kafka.TopicAuthorizationFailedError,
    kafka.GroupAuthorizationFailedError,
    kafka.ClusterAuthorizationFailedError,
    kafka.TransactionalIdAuthorizationFailed,
)
"""The broker answers, and says no: somebody has to change credentials or rights, and until then it is asked again."""


@dataclass(frozen=True, slots=True)
class KafkaConnection:
    """Where a cluster is and how to prove who we are. `cluster` is its name in URIs and settings (`[kafka.<cluster>]`).

    `bootstrap_servers`: `host:port`, several separated by commas. Certificates and keys are PEM files.
    """

    cluster: str
    bootstrap_servers: str
    security_protocol: SecurityProtocol = "PLAINTEXT"
    sasl_mechanism: SaslMechanism = "PLAIN"
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)
    ca_path: Path | None = None
    certificate_path: Path | None = None
    key_path: Path | None = None

    def options(self) -> dict[str, Any]:
        """What every client of aiokafka is given. Raises `UsageError`: a certificate cannot be loaded, a credential is missing."""
        options: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap_servers,
            "security_protocol": self.security_protocol,
            "client_id": "reactor",
        }
        if self.security_protocol in {"SSL", "SASL_SSL"}:
            options["ssl_context"] = self._ssl_context()
        if self.security_protocol.startswith("SASL"):
            if self.sasl_username is None or self.sasl_password is None:
                raise UsageError(
                    f"Kafka cluster {self.cluster}: {self.security_protocol} needs a user name and a password.",
                    hint=f"Set sasl_username and sasl_password in [kafka.{self.cluster}].",
                )
            options |= {
                "sasl_mechanism": self.sasl_mechanism,
                "sasl_plain_username": self.sasl_username,
                "sasl_plain_password": self.sasl_password,
            }
        return options

    def _ssl_context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca_path)
            if self.certificate_path is not None:
                context.load_cert_chain(self.certificate_path, self.key_path)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(
                f"Kafka cluster {self.cluster}: a certificate or key cannot be loaded: {error}.",
                hint=f"Check ca_path, certificate_path and key_path in [kafka.{self.cluster}].",
            ) from error
        return context

    def source(self, topic: str, number: int) -> SourcePartition:
        """The source partition of a topic-partition."""
        return SourcePartition(f"kafka://{self.cluster}/{topic}", str(number))

    def partition(self, source: SourcePartition) -> TopicPartition:
        """The topic-partition of a source partition. Raises `ValueError`: it is of another cluster."""
        prefix = f"kafka://{self.cluster}/"
        if not source.source.startswith(prefix):
            raise ValueError(f"{source} is not of {prefix}")
        return TopicPartition(source.source.removeprefix(prefix), int(source.number))

    def failure(self, error: BaseException) -> Outage:
        """What an error of aiokafka, or of the network, means to the house."""
        where = f"Kafka cluster {self.cluster} ({self.bootstrap_servers})"
        if isinstance(error, REFUSED):
            return Outage(
                f"{where} refuses: {_said(error)}.",
                hint=f"Check the credentials in [kafka.{self.cluster}] and the rights of that user.",
            )
        return Outage(
            f"{where} does not answer as it should: {_said(error)}.",
            hint=f"Check that the brokers run and that bootstrap_servers and security_protocol in [kafka.{self.cluster}] fit them.",
        )


def _said(error: BaseException) -> str:
    name, text = type(error).__name__, str(error).strip().rstrip(".")
    if text.startswith(name):  # those of aiokafka say it themselves
        return text
    return f"{name}: {text}" if text else name
