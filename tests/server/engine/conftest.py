"""One engine process for all tests of this folder that do not need one of their own."""

import asyncio

import pytest

from tests.support.engine.engines import FaultyOptions, RecordingClient

TIMEOUT = 10  # seconds, which no tick takes on a machine however busy


@pytest.fixture(scope="package")
def runner():
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="package")
def faulty_engine(runner, grey_directory, tmp_path_factory):
    """An engine of four slots that crashes on request, and is restarted each time."""
    file = tmp_path_factory.mktemp("engine") / "signal"
    options = FaultyOptions(
        grey_directory, "cpu", slots=4, threads=1, timeout=TIMEOUT, signal_file=file
    )
    engine = runner.run(RecordingClient(options).started())
    yield engine
    runner.run(engine.close())
