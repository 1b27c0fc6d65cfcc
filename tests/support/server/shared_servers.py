"""Options of the servers that several test modules share (tests/server/conftest.py starts them).

All tests are one client, which may take each limit whole (client-share 1) but where shares are
tested, and sends more wrong requests than a client may without a delay.
"""

from contextlib import contextmanager

import pytest

from tests.support.server.metrics_reader import wait_until_idle
from tests.support.server.running_server import serve

LONG = 100_000  # images: minutes of work in one job
NO_DELAY = {"max-overhead-per-second": 100_000}
# else a busy machine, which paints few images a second, refuses LONG
NO_DEADLINE = {"request-timeout": 1_000_000}
LARGE = {
    "max-images-per-request": LONG,
    "client-share": 1,
    **NO_DELAY,
    **NO_DEADLINE,
}

# full_queue_server: few slots, and room for exactly one job of LONG images
QUEUE_SLOTS = 4
FULL_QUEUE = {"slots": QUEUE_SLOTS, "max-waiting-images": LONG - QUEUE_SLOTS, **LARGE}

# limited_server: room for many long jobs, and every limit on websockets
LIMITED_SLOTS = 4
MAX_WEBSOCKETS = 3
MAX_JOBS = 12
MAX_MESSAGES = 100
MAX_BODY_BYTES = 20_000
LIMITED = {
    "slots": LIMITED_SLOTS,
    "max-waiting-images": 20 * LONG,
    "max-body-bytes": MAX_BODY_BYTES,
    **LARGE,
}
LIMITED |= {"max-websockets": MAX_WEBSOCKETS, "max-jobs-per-websocket": MAX_JOBS}
LIMITED |= {"max-messages-per-second": MAX_MESSAGES}

# guarded_server: keys, allowed origins, a small body limit, and a log of everything as JSON
KEY, SECOND_KEY = (
    "sk-7?>~key/+",
    "sk-second",
)  # base64 and base64url write the first one differently
# allowed origins
PAGE = "https://page.example"
SECOND_PAGE = "http://localhost:3000"
GUARDED_SLOTS = 4
GUARDED = {"slots": GUARDED_SLOTS, "max-waiting-images": LONG, "max-body-bytes": 100_000, **LARGE}
GUARDED |= {"log-format": "json", "log-level": "debug"}
GUARDED |= {"api-key": [KEY, SECOND_KEY], "allow-origin": [PAGE, SECOND_PAGE]}


def bearer(key):
    return {"authorization": f"Bearer {key}"}


def arguments(options):
    """Options as command line arguments; a list repeats its option."""
    pairs = (
        (name, one)
        for name, value in options.items()
        for one in (value if isinstance(value, list) else [value])
    )
    return [f"--{name}={value}" for name, value in pairs]


@contextmanager
def serve_with(model, options):
    """A server with these options, whose log has no traceback at its end."""
    with serve(model, *arguments(options)) as server:
        yield server
    log = server.log_text
    assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:5000]


def server_of(options, model="grey_directory", scope="module"):
    """A fixture: a server of the model that is the fixture of that name."""

    @pytest.fixture(scope=scope)
    def server(request):
        with serve_with(request.getfixturevalue(model), options) as server:
            yield server

    return server


def idle_client_of(server):
    """A fixture: a client of the server that is the fixture of that name, which is idle at first."""

    @pytest.fixture
    def client(request):
        with request.getfixturevalue(server).client() as client:
            wait_until_idle(client, "websocket_connections")
            yield client

    return client
