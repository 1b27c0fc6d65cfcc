"""Real servers of the two tiny models, each shared by all tests
whose limits are compatible with it.
"""

import functools

import httpx
import pytest

from scanline.model.inference import load
from scanline.model.tasks.offline import paint
from tests.support import shapes, small_models
from tests.support.server.running_server import client_of, serve
from tests.support.server.server_health import FULL_REQUEST, ROOM, SLOTS, WAITING
from tests.support.server.shared_servers import (
    FULL_QUEUE,
    GUARDED,
    LIMITED,
    NO_DELAY,
    arguments,
    server_of,
)
from tests.support.server.websocket_client import connected

# One for all clients of this process: loading the system's certificates takes 50 ms of each.
httpx._transports.default.create_ssl_context = functools.cache(httpx.create_ssl_context)


@pytest.fixture(scope="session", autouse=True)
def engines_on_the_cpu():
    """Also on a machine with a GPU: what is tested here is the server, and
    images are compared with the CPU's.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCANLINE_DEVICE", "cpu")
        yield


# default limits, except for many slots and large requests
server = server_of({"slots": 64, "max-images-per-request": 2000, **NO_DELAY}, scope="session")
colour_server = server_of(
    {"slots": 24, "max-body-bytes": 100_000, **NO_DELAY}, "colour_directory", scope="session"
)
full_queue_server = server_of(FULL_QUEUE, scope="session")
limited_server = server_of(LIMITED, scope="session")
guarded_server = server_of(GUARDED, scope="session")


@pytest.fixture(scope="session")
def shapes_directory(tmp_path_factory):
    return shapes.evaluate(shapes.save(tmp_path_factory.mktemp("models") / "shapes"))


@pytest.fixture(scope="session")
def digits_directory(tmp_path_factory):
    """A guided model of digits and a word, with a class head."""
    classes = (("2", "two"), ("0",), ("6",), ("horse",))
    config = small_models.config(
        height=7, width=5, layers=1, predicts="categorical", classes=classes
    )
    directory = tmp_path_factory.mktemp("digits") / "digits"
    return shapes.save(directory, config, class_head=True)


@pytest.fixture(scope="session")
def shapes_model(shapes_directory):
    """The model of `shapes_server` in this process."""
    return load(shapes_directory, device="cpu")


@pytest.fixture(scope="session")
def shapes_server(shapes_directory):
    """A model with classes, fewer slots than an image may have particles, and
    what other projects' clients need.
    """
    limits = {
        "max-images-per-request": shapes.MAX_IMAGES,
        "slots": shapes.SLOTS,
        "max-waiting-images": shapes.WAITING,
        "client-share": 1,
    }
    names = [part for name in shapes.NAMES for part in ("--served-model-name", name)]
    with serve(shapes_directory, "--resize", *names, *arguments({**limits, **NO_DELAY})) as server:
        yield server


@pytest.fixture(scope="session")
def small_room_server(grey_directory):
    """So little room that one leaked slot shows; at the end, no request
    may have failed inside the server.
    """
    limits = {
        "max-images-per-request": SLOTS + WAITING,
        "max-body-bytes": 1_000_000,
        "max-messages-per-second": 20,
    }
    with serve(grey_directory, *arguments({**ROOM, **limits, **NO_DELAY})) as server:
        yield server
    log = server.log_text
    assert "request failed" not in log, log[log.index("request failed") :][:5000]


@pytest.fixture(scope="session")
def full_request_images(grey):
    """What `assert_server_healthy` requests, painted offline."""
    return paint(grey, FULL_REQUEST["n"], seed=FULL_REQUEST["seed"]).images.reshape(-1, 7, 5)


client = client_of("server")
colour_client = client_of("colour_server")
shapes_client = client_of("shapes_server")


@pytest.fixture
def websocket(server):
    with connected(server.url) as websocket:
        yield websocket
