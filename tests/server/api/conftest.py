"""One server in this process, and clients of shared servers, which are idle before each test."""

import pytest

from scanline.server.settings import Settings
from tests.support.server.in_process_server import serve_in_process
from tests.support.server.metrics_reader import wait_until_idle
from tests.support.server.server_health import assert_server_healthy
from tests.support.server.shared_servers import LONG, idle_client_of


@pytest.fixture(scope="package")
def in_process_server(grey_directory):
    """Its address and its engine client; room for two long jobs."""
    limits = {"max_images_per_request": LONG, "max_waiting_images": 2 * LONG, "client_share": 1}
    limits |= {
        "request_timeout": 1_000_000,
        "max_overhead_per_second": 100_000,
        "slots": 64,
        "threads": 1,
    }
    with serve_in_process(Settings(models=(str(grey_directory),), **limits)) as served:
        yield served


full_queue_client = idle_client_of("full_queue_server")


@pytest.fixture
def limited_client(limited_server):
    """After each test, the server is idle again and has logged no error."""
    with limited_server.client() as client:
        wait_until_idle(client, "websocket_connections")
        yield client
        wait_until_idle(client, "websocket_connections")
    assert not [line for line in limited_server.log if "Traceback" in line or "[error" in line]


@pytest.fixture
def small_room_client(small_room_server, full_request_images):
    """After each test the server paints as many images as it has room for, each of
    them with the bytes of its seed.
    """
    with small_room_server.client() as client:
        yield client
        assert_server_healthy(client, full_request_images)
