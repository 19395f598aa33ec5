"""Containers, where a Docker engine answers."""

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache

INFO_SECONDS = 20.0


@cache
def docker_answers() -> bool:
    """Whether there is an engine behind the client (a client alone is no Docker)."""
    if shutil.which("docker") is None:
        return False
    try:
        return subprocess.run(["docker", "info"], capture_output=True, timeout=INFO_SECONDS, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


@contextmanager
def container(image: str, port: int, published: int, environment: Mapping[str, str]) -> Iterator[None]:
    """A container whose `port` is reachable as 127.0.0.1:`published`, a free port of the caller's. It may not answer yet."""
    from testcontainers.core.container import DockerContainer  # noqa: PLC0415  (half a second that only Docker users pay)

    started = DockerContainer(image, env=dict(environment)).with_kwargs(ports={f"{port}/tcp": ("127.0.0.1", published)})
    with started:
        yield
