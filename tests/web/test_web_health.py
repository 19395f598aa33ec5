"""The health endpoints over HTTP, with a state that answers, forbids, fails, or says nothing."""

import asyncio
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import anyio
import pytest
from prometheus_client import CollectorRegistry, Counter

from reactor import __version__
from reactor.errors import Outage, StateForbids
from reactor.ports import Source
from reactor.runtime.hands import ExternalFeeding
from reactor.runtime.intake import SourceIntake
from reactor.runtime.service import Service
from reactor.web import health as web
from reactor.web.health import Health, health_app, listening_socket, served

pytestmark = pytest.mark.anyio


class Clock:
    time = 1000.0

    def now(self) -> float:
        return self.time


@dataclass
class Turning:
    turned_at: float = 1000.0


@dataclass
class Running:
    """What health looks at of a service. `asked`: how often the state was; `error`: what it raises."""

    asked: int = 0
    error: Exception | None = None
    silent: bool = False
    watches: bool = True
    away: Mapping[str, str] = field(default_factory=dict)
    loop: Turning = field(default_factory=Turning)
    feedings: Mapping[tuple[str, str], object] = field(default_factory=dict)
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def lakes_away(self) -> Mapping[str, str]:
        return self.away

    @property
    def probe(self) -> "Running":
        return self

    async def watched(self, _lake: str) -> bool:
        self.asked += 1
        if self.error:
            raise self.error
        if self.silent:
            await asyncio.Event().wait()
        return self.watches

    async def last_snapshot(self, lake: str) -> int:
        if lake == "gone":
            raise StateForbids("no catalog")
        return 1

    async def gaps(self) -> Sequence[object]:
        return ()


def asked(url: str) -> tuple[int, str, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - our own loopback server
            return answer.status, answer.read().decode(), answer.headers["content-type"]
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(), error.headers["content-type"]


async def checks(url: str) -> tuple[int, Mapping[str, str]]:
    code, body, _ = await anyio.to_thread.run_sync(asked, url)
    told: Mapping[str, Any] = json.loads(body)
    assert told.keys() == {"status", "checks"}
    assert all(check.keys() == {"name", "status", "message"} for check in told["checks"])
    return code, {check["name"]: check["status"] for check in told["checks"]}


def healthy(*lakes: str) -> tuple[Health, Running, Clock]:
    clock = Clock()
    return Health(clock, list(lakes)), Running(), clock


def starts(health: Health, running: Running) -> None:
    running.ready.set()
    health.service = cast("Service", running)


async def test_the_life_of_a_process() -> None:
    health, running, clock = healthy("main")
    registry = CollectorRegistry()
    Counter("reactor_things", "Things.", registry=registry).inc()
    listener = listening_socket("127.0.0.1", 0, fixed=True)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with served(health_app(health, registry), listener):
        assert (await checks(f"{url}/livez"))[0] == 200
        assert await checks(f"{url}/startupz") == await checks(f"{url}/readyz") == (503, {"start": "down"})
        starts(health, running)
        clock.time += 2
        assert (await checks(f"{url}/startupz"))[0] == 200
        assert await checks(f"{url}/readyz") == (200, {"postgres": "up", "migrations": "up", "commit_trigger": "up", "lakes": "up"})
        running.stopping.set()
        clock.time += 2
        assert (await checks(f"{url}/readyz"))[0] == 503
        assert (await checks(f"{url}/livez"))[0] == 200
        clock.time += 60
        assert await checks(f"{url}/livez") == (503, {"loop": "down"})
        code, text, kind = await anyio.to_thread.run_sync(asked, f"{url}/metrics")
        assert (code, "reactor_things_total 1.0" in text, kind.startswith("text/plain")) == (200, True, True)
        assert json.loads((await anyio.to_thread.run_sync(asked, f"{url}/version"))[1]) == {"version": __version__}
        assert (await anyio.to_thread.run_sync(asked, f"{url}/"))[0] == 404
    with pytest.raises(OSError, match=r"refused|reset"):
        await anyio.to_thread.run_sync(asked, f"{url}/livez")


@pytest.mark.parametrize(
    ("lakes", "change", "down"),
    [
        (["main"], {"error": Outage("no answer")}, {"postgres", "commit_trigger", "lakes"}), (["main"], {"watches": False}, {"commit_trigger"}),
        (["main", "gone"], {}, {"lakes"}), (["main"], {"silent": True}, {"postgres", "commit_trigger", "lakes"}),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_named(monkeypatch: pytest.MonkeyPatch, lakes: list[str], change: Mapping[str, object], down: set[str]) -> None:
    monkeypatch.setattr(web, "ASK_SECONDS_MAX", 0.05)
    health, running, _ = healthy(*lakes)
    starts(health, running)
    for name, value in change.items():
        setattr(running, name, value)
    report = await health.ready()
    assert {check.name for check in report.checks if check.status == "down"} == down


async def test_however_many_ask_the_state_is_asked_once_a_second() -> None:
    health, running, clock = healthy("main")
    starts(health, running)
    await asyncio.gather(*(health.ready() for _ in range(50)))
    assert running.asked == 1
    clock.time += 1.5
    await health.ready()
    assert running.asked == 2


@dataclass
class Reading:
    """A source and its intake, as far as health looks at them."""

    reached: bool = True
    trouble: str = ""
    halted: Mapping[str, str] = field(default_factory=dict)


async def test_a_source_of_many_topics_is_one_check() -> None:
    health, running, clock = healthy()
    main, tagged = Reading(), Reading(reached=False, trouble="no such host")
    feeding, other = (ExternalFeeding(cast("Source", reading), cast("SourceIntake", reading)) for reading in (main, tagged))
    running.feedings = {("", "kafka://main/a"): feeding, ("", "kafka://main/b"): feeding, ("eu", "kafka://main/a"): other, ("", "outbox://prod"): main}
    starts(health, running)
    found = {check.name: (check.status, check.message) for check in (await health.ready()).checks if check.name.startswith("source")}
    assert found == {"source kafka://main": ("up", ""), "source kafka://main eu": ("down", "no such host")}
    main.halted, tagged.reached = {"orders": "was it re-created?"}, True
    clock.time += 2
    found = {check.name: (check.status, check.message) for check in (await health.ready()).checks if check.name.startswith("source")}
    assert found == {"source kafka://main": ("degraded", "was it re-created?"), "source kafka://main eu": ("degraded", "no such host")}


async def test_a_port_that_is_taken_is_passed_over_unless_it_was_set() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with listening_socket("127.0.0.1", port, fixed=False) as other:
            assert port < other.getsockname()[1] <= port + web.PORTS_TRIED
        with pytest.raises(StateForbids, match=f"port {port}") as refused:
            listening_socket("127.0.0.1", port, fixed=True)
        assert "health_port" in refused.value.hint
