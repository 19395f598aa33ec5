"""Fixtures for real parts: one server a session, one database and one set of topic names a test."""

import asyncio
import gc
import os
import signal
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import chain, groupby
from pathlib import Path
from typing import TypeVar

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from hypothesis import HealthCheck, settings

from reactor.embedded import EmbeddedBroker
from reactor.errors import UsageError
from tests.parts import PartMissing, in_ci
from tests.parts.kafka import KafkaCluster
from tests.parts.postgres import new_database, postgres
from tests.parts.promtool import found_promtool
from tests.parts.shared_kafka import shared_kafka

Part = TypeVar("Part")

# How long an example takes, or the making of it, says how busy the machine is.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# Where the tests run as a job in the background of a script, children would inherit that Ctrl-C is ignored; some tests send it to them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

MARK_OF_FIXTURE = {"postgres_server": "postgres", "embedded_broker": "broker", "kafka_bootstrap": "kafka", "own_kafka": "kafka"}


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected lives as long as the session: the garbage collector never looks at it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


PURE = ("core", "domain", "properties", "state", "mutants")
"""Folders whose tests depend on nothing but their seed, or find races on purpose: one that fails has found something."""


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """A test has the marks of the parts that it uses, so that `-m "not kafka"` needs no help from its author. `--reruns` is for real parts."""
    for item in items:
        for fixture in getattr(item, "fixturenames", ()):
            if fixture in MARK_OF_FIXTURE:
                item.add_marker(MARK_OF_FIXTURE[fixture])
        if item.path.relative_to(Path(__file__).parent).parts[0] in PURE:
            item.add_marker(pytest.mark.flaky(reruns=0))
    yield  # here pytest leaves out what `-m` does not ask for
    items[:] = slow_files_first(items, getattr(config, "workerinput", {}).get("workercount", 1))


def slow_files_first(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """Each worker, which gets an equal part of the list, begins with its share of the files that have slow tests: none is left alone with them at the end."""
    files = [list(tests) for _, tests in groupby(items, key=lambda item: item.path)]
    slow = [tests for tests in files if any(item.get_closest_marker("slow") for item in tests)]
    quick = [item for tests in files if tests not in slow for item in tests]
    size = len(quick) // workers + 1
    parts = [[*chain.from_iterable(slow[n::workers]), *quick[n * size : (n + 1) * size]] for n in range(workers)]
    return list(chain.from_iterable(parts))


@contextmanager
def had(part: AbstractContextManager[Part]) -> Iterator[Part]:
    """The part, or the test is skipped with the reason; in CI it fails with it."""
    with ExitStack() as stack:
        try:
            started = stack.enter_context(part)
        except (PartMissing, UsageError) as missing:
            if in_ci():
                pytest.fail(f"missing in CI: {missing}", pytrace=False)
            pytest.skip(str(missing))
        yield started


def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of a test run have in common."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Tests marked `anyio` run on asyncio alone, as Reactor does."""
    return "asyncio"


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a superuser on a PostgreSQL that the whole session shares."""
    with had(postgres(tmp_path_factory.mktemp("parts") / "postgres")) as url:
        yield url


@pytest.fixture
def database(postgres_server: str) -> Iterator[str]:
    """The URL of an empty database of the test's own."""
    with new_database(postgres_server) as url:
        yield url


@pytest.fixture(scope="session")
def embedded_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The bootstrap servers of the small broker (no transactions), shared by the session."""
    with had(EmbeddedBroker(tmp_path_factory.mktemp("parts") / "broker")) as bootstrap_servers:
        yield bootstrap_servers


@pytest.fixture(scope="session")
def kafka_bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The bootstrap servers of a real Apache Kafka that all workers share: take topic names from `topic`, kill nothing."""
    with had(shared_kafka(shared_folder(tmp_path_factory) / "kafka")) as bootstrap_servers:
        yield bootstrap_servers


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[KafkaCluster]:
    """An Apache Kafka of one broker that this test may kill and start again."""
    with had(KafkaCluster(tmp_path / "kafka")) as cluster:
        yield cluster


@pytest.fixture
def topic(kafka_bootstrap: str) -> Iterator[Callable[[str], str]]:
    """`topic("orders")` is a topic name of this test alone; who uses it makes the topic, and it is deleted after the test."""
    prefix = f"test-{uuid.uuid4().hex[:8]}-"
    yield lambda name: prefix + name
    asyncio.run(_delete_topics(kafka_bootstrap, prefix))


async def _delete_topics(bootstrap_servers: str, prefix: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    try:
        if names := [name for name in await admin.list_topics() if name.startswith(prefix)]:
            await admin.delete_topics(names)
    finally:
        await admin.close()


@pytest.fixture(scope="session")
def promtool() -> Iterator[Path]:
    """Prometheus' checker of metrics and rules."""
    with had(found_promtool()) as path:
        yield path


@pytest.fixture
def lake_folder(tmp_path: Path) -> Path:
    """An empty folder for the files of a lake."""
    folder = tmp_path / "lake"
    folder.mkdir()
    return folder
