"""`make outages`, as short as it can be: each part is away until health says so."""

import pytest

from tests.outages.__main__ import main

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.kafka]


def test_every_row_once_and_no_run_failed(capfd: pytest.CaptureFixture[str]) -> None:
    code = main(["--seconds", "0"])
    out, err = capfd.readouterr()
    assert out.splitlines()[-1:] == ["outages: cut=3 lost=0 doubled=0 failed_runs=0"], err[-3000:]
    assert code == 0
