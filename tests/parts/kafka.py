"""A real Apache Kafka (KRaft) for tests: one that is given, a container, or the Java processes of `KafkaCluster`."""

import base64
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from reactor.embedded.broker import speaks_kafka
from reactor.embedded.child import Child
from reactor.embedded.folder import free_port
from tests.parts import PartMissing
from tests.parts.docker import container, docker_answers
from tests.parts.waiting import wait_until

VERSION = "4.1.1"
IMAGE = f"apache/kafka:{VERSION}"
COPY_DEPENDENCIES = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
JVM = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")  # small and soon ready; three share two cores
READY_SECONDS = 90.0
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>parts</groupId><artifactId>kafka</artifactId><version>1</version>
  <dependencies><dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version></dependency></dependencies>
</project>
"""


@contextmanager
def kafka(folder: Path) -> Iterator[str]:
    """The bootstrap servers of a Kafka that nobody kills. `folder` keeps the data of one of our own."""
    if given := os.environ.get("REACTOR_TEST_KAFKA_BOOTSTRAP"):
        yield given
    elif docker_answers():
        port = free_port()
        settings = _settings(node=1, port=9092, controllers={1: 9093}, folder=Path("/tmp/kafka-logs"))  # noqa: S108  (the image's own folder)
        settings |= {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093", "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}
        environment = {f"KAFKA_{name.upper().replace('.', '_')}": value for name, value in settings.items()}
        with container(IMAGE, 9092, port, environment):
            wait_until(lambda: speaks_kafka(port), f"{IMAGE} answers", seconds=180.0)
            yield f"127.0.0.1:{port}"
    else:
        with KafkaCluster(folder) as cluster:
            yield cluster.bootstrap_servers


@dataclass(slots=True)
class _Broker:
    node: int
    port: int
    config: Path
    child: Child | None = None


class KafkaCluster:
    """`with KafkaCluster(folder, brokers=3) as cluster`: brokers that may be killed and started again on their data and ports.

    Three brokers keep three copies of everything and need two. Raises PartMissing without Java or Maven.
    """

    def __init__(self, folder: Path, brokers: int = 1) -> None:
        self._folder = folder
        self._brokers = {node: _Broker(node, free_port(), folder / f"{node}.properties") for node in range(1, brokers + 1)}
        self._jars = ""

    @property
    def bootstrap_servers(self) -> str:
        """All brokers, dead or alive."""
        return ",".join(f"127.0.0.1:{broker.port}" for broker in self._brokers.values())

    def __enter__(self) -> Self:
        self._jars = f"{jars()}/*"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._format()
        with ExitStack() as stack:
            stack.callback(self._end)
            self._start_all(list(self._brokers))
            stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def kill(self, node: int = 1) -> None:
        """Kill a broker without warning."""
        broker = self._brokers[node]
        if broker.child is not None:
            broker.child.stop([])
            broker.child = None

    def start(self, node: int = 1) -> None:
        """Start a killed broker again; returns when it answers."""
        self._start_all([node])

    def restart(self) -> None:
        """Kill all brokers at once and start them again."""
        self._end()
        self._start_all(list(self._brokers))

    def _end(self) -> None:
        for node in self._brokers:
            self.kill(node)

    def _start_all(self, nodes: Sequence[int]) -> None:
        """A quorum is only ready together, so all are started before any is waited for."""
        for node in nodes:
            broker = self._brokers[node]
            command = [_program("java"), *JVM, "-cp", self._jars, "kafka.Kafka", str(broker.config)]
            log_path = self._folder / f"{node}.log"
            broker.child = Child(command, folder=self._folder, log_path=log_path, death_signal=signal.SIGKILL)
        for node in nodes:
            if not self._answers(self._brokers[node]):
                raise RuntimeError(f"broker {node} does not start:\n{(self._folder / f'{node}.log').read_text()[-3000:]}")

    def _answers(self, broker: _Broker) -> bool:
        return broker.child is not None and broker.child.wait_until(lambda: speaks_kafka(broker.port), READY_SECONDS)

    def _format(self) -> None:
        cluster = f"T{base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]}"  # Kafka's form of a uuid; no dash in front
        controllers = {node: free_port() for node in self._brokers}
        for broker in self._brokers.values():
            settings = _settings(broker.node, broker.port, controllers, self._folder / f"data-{broker.node}")
            broker.config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
            tool = [_program("java"), *JVM, "-cp", self._jars, "kafka.tools.StorageTool"]
            subprocess.run([*tool, "format", "-t", cluster, "-c", str(broker.config)], check=True, capture_output=True)


def _settings(node: int, port: int, controllers: dict[int, int], folder: Path) -> dict[str, str]:
    copies, needed = (3, 2) if len(controllers) >= 3 else (1, 1)
    return {
        "process.roles": "broker,controller",
        "node.id": str(node),
        "controller.quorum.voters": ",".join(f"{other}@127.0.0.1:{at}" for other, at in controllers.items()),
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controllers[node]}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(folder),
        "num.partitions": "3",
        "default.replication.factor": str(copies),
        "min.insync.replicas": str(needed),
        "offsets.topic.replication.factor": str(copies),
        "offsets.topic.num.partitions": "8",
        "transaction.state.log.replication.factor": str(copies),
        "transaction.state.log.min.isr": str(needed),
        "transaction.state.log.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        "broker.session.timeout.ms": "3000",  # a killed broker is known to be dead, and let in again, after this time
        "broker.heartbeat.interval.ms": "500",
    }


def jars() -> Path:
    """The folder with Kafka's jars; fetched once by Maven. Raises PartMissing without Java, Maven or the network."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(os.environ.get("REACTOR_PARTS_CACHE") or home / "reactor-parts") / f"kafka-{VERSION}"
    _program("java")
    if folder.is_dir():
        return folder
    maven = _program("mvn")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "lock").open("w") as lock, tempfile.TemporaryDirectory(dir=folder.parent) as made:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():  # somebody else has been faster
            return folder
        Path(made, "pom.xml").write_text(POM)
        fetch = [maven, "-q", "-B", "-f", f"{made}/pom.xml", COPY_DEPENDENCIES, f"-DoutputDirectory={made}/jars", "-DincludeScope=runtime"]
        done = subprocess.run(fetch, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise PartMissing(f"Maven could not fetch Apache Kafka {VERSION}: {done.stdout[-500:]}")
        Path(made, "jars").rename(folder)
    return folder


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise PartMissing(
            f"Apache Kafka needs {name} (Debian: apt-get install default-jre-headless maven), Docker, or REACTOR_TEST_KAFKA_BOOTSTRAP"
        )
    return found
