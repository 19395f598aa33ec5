"""`/livez`, `/startupz`, `/readyz`, `/metrics`, `/version` (conventions 6), as one ASGI app on the process's event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import uvicorn
from anyio import to_thread
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from reactor import __version__
from reactor.errors import ReactorError, StateForbids
from reactor.ports import Clock
from reactor.runtime.hands import ExternalFeeding
from reactor.runtime.health import Probe, Report, Seen, SourceSeen, alive, ready, started
from reactor.runtime.service import Service

ASK_SECONDS_MAX = 2.0
"""How long PostgreSQL may take to answer before it counts as down."""
KEPT_SECONDS = 1.0
"""For how long an answer serves other probes too."""
CLOSE_SECONDS_MAX = 1
PORTS_TRIED = 100


@dataclass(slots=True)
class Health:
    """What this process is asked about itself. `waiting`: what the start waits for; `service`: what came of it."""

    clock: Clock
    lakes: Collection[str]
    waiting: str = "starting"
    service: Service | None = None
    _seen: Seen | None = None
    _seen_at: float = 0.0
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)

    def alive(self) -> Report:
        """`/livez`."""
        return alive(self.service.loop.turned_at if self.service else None, self.clock.now())

    def started(self) -> Report:
        """`/startupz`."""
        running = self.service is not None and self.service.ready.is_set()
        return started(Seen(waiting=None if running else self.waiting))

    async def ready(self) -> Report:
        """`/readyz`."""
        async with self._looking:
            if self._seen is None or self.clock.now() - self._seen_at > KEPT_SECONDS:
                self._seen, self._seen_at = await self._look(), self.clock.now()
        return ready(self._seen)

    async def _look(self) -> Seen:
        service = self.service
        if service is None or not service.ready.is_set():
            return Seen(waiting=self.waiting)
        draining, sources = service.stopping.is_set(), list(_sources(service))
        try:
            async with asyncio.timeout(ASK_SECONDS_MAX):
                unwatched = [lake for lake in self.lakes if not await service.probe.watched(lake)]
                lakes = {lake: await _catalog(service.probe, lake) for lake in self.lakes}
                gaps = len(await service.probe.gaps())
        except TimeoutError:
            return Seen(draining=draining, sources=sources, postgres=f"no answer within {ASK_SECONDS_MAX:g} s")
        except ReactorError as error:
            return Seen(draining=draining, sources=sources, postgres=str(error.args[0]))
        return Seen(None, draining, "", {**lakes, **await self._away(service)}, unwatched, sources, gaps)

    async def _away(self, service: Service) -> Mapping[str, str]:
        """Lakes whose folder cannot be reached; a dead network file system answers nobody."""
        try:
            async with asyncio.timeout(ASK_SECONDS_MAX):
                return await to_thread.run_sync(service.lakes_away, abandon_on_cancel=True)
        except TimeoutError:
            return dict.fromkeys(self.lakes, f"no answer within {ASK_SECONDS_MAX:g} s")


async def _catalog(probe: Probe, lake: str) -> str:
    """Why a lake's catalog cannot be read; empty if it can."""
    try:
        await probe.last_snapshot(lake)
    except StateForbids as error:
        return str(error.args[0])
    return ""


def _sources(service: Service) -> Iterator[SourceSeen]:
    """Each source once, however many topics it reads."""
    seen: set[int] = set()
    for (tag, uri), feeding in service.feedings.items():
        if isinstance(feeding, ExternalFeeding) and id(feeding) not in seen:
            seen.add(id(feeding))
            name = f"{uri.rpartition('/')[0]} {tag}".strip()
            yield SourceSeen(name, feeding.source.reached, feeding.source.trouble, tuple(feeding.intake.halted.values()))


def health_app(health: Health, registry: CollectorRegistry) -> Starlette:
    """The endpoints. `registry`: what `/metrics` shows."""
    def answer(report: Report) -> Response:
        return JSONResponse(report.to_json(), report.http_status)

    async def livez(_: Request) -> Response:
        return answer(health.alive())

    async def startupz(_: Request) -> Response:
        return answer(health.started())

    async def readyz(_: Request) -> Response:
        return answer(await health.ready())

    async def metrics(_: Request) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    async def version(_: Request) -> Response:
        return JSONResponse({"version": __version__})

    endpoints: dict[str, Callable[[Request], object]] = {
        "/livez": livez, "/startupz": startupz, "/readyz": readyz, "/metrics": metrics, "/version": version,
    }
    return Starlette(routes=[Route(path, endpoint) for path, endpoint in endpoints.items()])


def listening_socket(host: str, port: int, *, fixed: bool) -> socket.socket:
    """A socket that listens on the port, or on the next free one if it is not `fixed` by the user. Raises `StateForbids`."""
    tried = range(port, min(port + (1 if fixed else PORTS_TRIED), 65_536))
    for candidate in tried:
        try:
            return socket.create_server((host, candidate), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        except OSError as error:
            reason = error.strerror
    which = f"port {port}" if fixed else f"none of the ports {tried.start} to {tried.stop - 1}"
    raise StateForbids(f"{which} on {host} can be listened on: {reason}", hint="set [http] health_port to a free one")


class _Server(uvicorn.Server):
    """Signals are the service's."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def served(app: Starlette, listener: socket.socket) -> AsyncIterator[None]:
    """The app answers on this socket while this is open."""
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", ws="none", server_header=False, log_level="warning",
                            timeout_graceful_shutdown=CLOSE_SECONDS_MAX)
    server = _Server(config)
    serving = asyncio.create_task(server.serve([listener]), name="health")
    try:
        yield
    finally:
        server.should_exit = True
        await serving
