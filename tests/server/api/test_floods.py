"""An honest client beside the flood of another: its images and its probes take
at most about three times as long.
"""

import subprocess
import sys
import time

import httpx
import pytest

from scanline.model import zoo
from tests.support.server.floods import FLOODS
from tests.support.server.running_server import serve
from tests.support.waiting import PATIENCE, wait_for

SECONDS = 8.0
NOISE = 0.1  # seconds, of a machine whose processors the flood, the client and the server share

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server():
    with serve(
        zoo.find(zoo.DEFAULT),
        "--max-connections",
        "1600",
        "--api-key",
        "sk-honest",
        "--api-key",
        "sk-flood",
    ) as server:
        yield server
    assert "Traceback" not in server.log_text


def slowest(client):
    """The 90th percentile of the seconds of images, some twenty of them,
    and of probes, one after the other.
    """
    images = []
    probes = []
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        for seconds, path in (
            (images, "/v1/images/generations"),
            (probes, "/healthz"),
            (probes, "/v1/models"),
        ):
            began = time.monotonic()
            answer = client.get(path) if seconds is probes else client.post(path, json={})
            assert answer.status_code == 200
            seconds.append(time.monotonic() - began)
    return sorted(images)[int(0.9 * len(images))], sorted(probes)[int(0.9 * len(probes))]


@pytest.mark.parametrize("name", FLOODS)
def test_an_honest_client_beside_a_flood(server, name):
    with httpx.Client(
        base_url=server.url, timeout=PATIENCE, headers={"authorization": "Bearer sk-honest"}
    ) as client:
        alone = slowest(client)
        command = [
            sys.executable,
            "-m",
            "tests.support.server.floods",
            name,
            str(httpx.URL(server.url).port),
        ]
        flood = subprocess.Popen(command, stdout=subprocess.PIPE)
        try:
            assert flood.stdout.readline() == b"begins\n"
            beside = slowest(client)
            assert flood.poll() is None
        finally:
            flood.kill()
            flood.wait(PATIENCE)
        print(
            f"{name}: images {alone[0]:.3f} -> {beside[0]:.3f} s, probes {alone[1]:.3f} -> {beside[1]:.3f} s"
        )
        assert beside[0] < 3 * alone[0] + NOISE
        assert beside[1] < 3 * alone[1] + NOISE
        wait_for(lambda: client.get("/readyz").status_code == 200, "the server")
