import io
import json
import logging
from collections.abc import Iterator
from logging import LogRecord

import pytest

from reactor.telemetry import LIBRARIES, REPEAT_SECONDS, Calm, start_logging


def record(logger: str, message: str, at: float, *arguments: object) -> LogRecord:
    made = LogRecord(logger, logging.WARNING, "", 0, message, arguments, None)
    made.created = at
    return made


def test_a_library_that_repeats_itself_is_heard_now_and_then() -> None:
    calm = Calm()
    heard = [at for at in range(100) if calm.filter(record("aiokafka.client", "no connection to %s", 1000.0 + at, at))]
    assert heard == [0, int(REPEAT_SECONDS), int(2 * REPEAT_SECONDS), int(3 * REPEAT_SECONDS)]
    assert calm.filter(record("aiokafka.client", "something else", 1001.0))
    assert calm.filter(record("aiokafka.group", "no connection to %s", 1001.0))


def test_what_reactor_says_is_always_heard() -> None:
    calm = Calm()
    assert all(calm.filter(record("reactor.runtime.loop", "again", 1000.0)) for _ in range(5))


def test_what_the_source_says_better_is_not_said_twice() -> None:
    calm = Calm()
    assert not calm.filter(record("aiokafka.cluster", "Topic %s not found in cluster metadata", 1000.0, "orders"))
    assert calm.filter(record("aiokafka.cluster", "Topic %s is not authorized for this client", 1000.0, "orders"))


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Where all logs of this process go meanwhile."""
    root, levels = logging.getLogger(), {name: logging.getLogger(name).level for name in ("root", *LIBRARIES)}
    handlers = root.handlers[:]
    made = io.StringIO()
    start_logging(made)
    yield made
    root.handlers[:] = handlers
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def test_what_a_library_says_has_a_word_too(stream: io.StringIO) -> None:
    logging.getLogger("aiokafka.conn").warning("no connection to %s", "broker")
    line = json.loads(stream.getvalue())
    assert (line["event"], line["message"], line["severity"]) == ("log", "no connection to broker", "warning")
