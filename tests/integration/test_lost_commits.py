"""The connection is cut between COMMIT and its answer, or before COMMIT has arrived (OP-15)."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.integration.records import Load
from tests.integration.shop import Shop

pytestmark = pytest.mark.slow


class Cutter:
    """`tests.parts.cut_commit` as a process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout
        self.url = self._out.readline().strip()

    def cut(self, side: str) -> None:
        """The next COMMIT; returns when it is cut."""
        self._in.write(side + "\n")
        self._in.flush()
        assert self._out.readline().split() == ["cut", side]


@contextmanager
def cutter(server_url: str) -> Iterator[Cutter]:
    command = [sys.executable, "-m", "tests.parts.cut_commit", server_url, "INSERT INTO \"lake_main\".ducklake_snapshot_changes"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Cutter(process)
        finally:
            process.kill()


def test_commits_that_are_cut_lose_and_double_nothing(shop: Shop) -> None:
    shop.write_all_scripts()
    with cutter(shop.direct_url) as proxy:
        shop.connect_by(proxy.url)
        served = shop.serve()
        served.wait_until_ready()
        with Load(shop.orders):
            for side in ("after", "before", "after", "after", "before", "after"):
                proxy.cut(side)
        shop.finish()
    assert shop.failed_runs() == []


def test_interrupted_at_commit_it_ends_in_order(shop: Shop) -> None:
    shop.write_all_scripts()
    with Load(shop.orders):
        for place in ("before_commit:interrupt:2", "after_commit:interrupt:3"):
            assert shop.serve(failpoint=place).wait_until_ended() == 0
    shop.serve()
    shop.finish()
    assert shop.failed_runs() == []
