"""The real servers that tests need, each as a context manager that gives its address and leaves no process behind.

Where a part comes from, first what is there: a server that the environment names (`REACTOR_TEST_POSTGRES_URL`,
`REACTOR_TEST_KAFKA_BOOTSTRAP`), a container if a Docker engine answers, else processes of our own on loopback: PostgreSQL and the small
broker from wheels, Apache Kafka from Maven Central (kept in `REACTOR_PARTS_CACHE`, by default `~/.cache/reactor-parts`).

What a machine cannot have raises `PartMissing` (or the embedded parts' own UsageError), which says why and what to install. The fixtures of
`conftest.py` skip such a test with that sentence; in CI (`CI=1` or `REACTOR_CI=1`) they fail it.
"""

import os


class PartMissing(Exception):
    """This machine cannot have the part."""


def in_ci() -> bool:
    """Whether a missing part is a failure."""
    return any(os.environ.get(name, "").lower() not in {"", "0", "false"} for name in ("CI", "REACTOR_CI"))
