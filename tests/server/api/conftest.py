"""One server in this process, for tests that inspect its engine client or need a client that does not read."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from scanline.server.engine.local.engine_client import EngineClient
from scanline.server.settings import Settings
from tests.support.server.in_process_server import serve_in_process
from tests.support.server.shared_servers import LONG


@pytest.fixture(scope="package")
def in_process_server(grey_directory: Path) -> Iterator[tuple[str, EngineClient]]:
    """Its address and its engine client; room for two long jobs."""
    settings = Settings(
        models=(str(grey_directory),),
        slots=64,
        threads=1,
        max_images_per_request=LONG,
        max_waiting_images=2 * LONG,
        client_share=1,
        request_timeout=1_000_000,
        max_overhead_per_second=100_000,
    )
    with serve_in_process(settings) as served:
        yield served
