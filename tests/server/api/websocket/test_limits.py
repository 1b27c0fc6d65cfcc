"""What one websocket may ask for, and how many there may be."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.frames import Frame, Opcode

from tests.server.api.routes.test_metrics import Numbers, until
from tests.support.error_answers import ONE_SENTENCE, answer_of
from tests.support.running_server import PATIENCE, Server, serve
from tests.support.websocket_client import DEAF, Painter, connected

WEBSOCKETS, JOBS, RATE, BYTES = 3, 4, 100, 20_000
LONG = 100_000  # images: minutes of work
OPTIONS = {
    "slots": 4,
    "max-waiting-images": 10 * LONG,
    "max-images-per-request": LONG,
    "max-websockets": WEBSOCKETS,
    "max-jobs-per-websocket": JOBS,
    "max-messages-per-second": RATE,
    "max-body-bytes": BYTES,
}


@pytest.fixture(scope="module")
def strict(grey_directory: Path) -> Iterator[Server]:
    with serve(grey_directory, *(f"--{name}={value}" for name, value in OPTIONS.items())) as server:
        yield server


@pytest.fixture
def client(strict: Server) -> Iterator[httpx.Client]:
    """Of a server on which nothing goes on, before and after."""
    with httpx.Client(base_url=strict.url, timeout=PATIENCE) as client:
        wait_until_free(client)
        yield client
        wait_until_free(client)


def wait_until_free(client: httpx.Client) -> None:
    names = ("num_images_reserved", "num_images_running", "websocket_connections")
    until(client, lambda now: all(now.of(name) == 0 for name in names))


def closed(painter: Painter) -> ConnectionClosedError:
    """How the server closed, once all that it said before has been heard."""
    try:
        while True:
            painter.hear()
    except ConnectionClosedError as caught:
        return caught


def test_one_websocket_too_many_is_refused_before_it_opens(strict: Server, client: httpx.Client) -> None:
    with ExitStack() as open_ones:
        for _ in range(WEBSOCKETS):
            open_ones.enter_context(connected(strict.url))
        with pytest.raises(InvalidStatus) as refused, connected(strict.url):
            pass
        response = answer_of(refused.value)
        assert (response.status_code, response.headers["retry-after"]) == (503, "2")
        error = response.json()["error"]
        assert (error["code"], error["type"]) == ("too_many_websockets", "server_error")
        assert ONE_SENTENCE.fullmatch(error["message"])
        assert client.post("/v1/images/generations", json={}).status_code == 200


def test_there_is_room_again_when_one_closes(strict: Server, client: httpx.Client) -> None:
    for _ in range(3 * WEBSOCKETS):
        with connected(strict.url) as painter:
            assert painter.paint(type="generate").order[-1] == "done"
        until(client, lambda now: now.of("websocket_connections") == 0)


def test_one_job_too_many_is_refused_and_the_others_go_on(strict: Server, client: httpx.Client) -> None:
    with connected(strict.url) as painter:
        for number in range(JOBS):
            painter.send(type="generate", id=number, n=LONG)
        painter.send(type="generate", id="more")
        while "more" not in painter.jobs:
            painter.hear()
        error = painter.jobs["more"].messages[-1]["error"]
        assert (error["code"], error["type"]) == ("too_many_jobs", "rate_limit_error")
        painter.send(type="cancel", id=0)
        painter.hear_ends(1)
        assert painter.paint(type="generate", id="more").order[-1] == "done"


def test_a_flood_of_messages_closes_the_websocket(strict: Server, client: httpx.Client) -> None:
    with connected(strict.url) as painter:
        painter.send(type="generate", n=LONG)
        painter.send_together(*[{}] * 10 * RATE)
        caught = closed(painter)
        last = painter.jobs[None].messages[-1]["error"]
    assert (caught.rcvd.code, last["code"]) == (1008, "too_many_messages")


def test_a_message_that_is_too_large_closes_the_websocket(strict: Server, client: httpx.Client) -> None:
    with connected(strict.url) as painter:
        painter.send(type="generate", n=LONG)
        painter.send(type="generate", user="x" * BYTES)
        assert closed(painter).rcvd.code == 1009


def test_a_message_in_countless_pieces_closes_the_websocket(strict: Server, client: httpx.Client) -> None:
    """Each of no bytes, so that no limit of bytes is ever reached."""
    with connected(strict.url) as painter:
        painter.send(type="generate", n=LONG)
        send_frames(painter, Frame(Opcode.TEXT, b"", fin=False), *[Frame(Opcode.CONT, b"", fin=False)] * 3000)
        assert closed(painter).rcvd.code == 1009


def test_a_deaf_client_that_floods_is_held_back_and_forgotten(strict: Server, client: httpx.Client) -> None:
    """It never reads, has as many jobs as it may, and sends what must be answered until nothing more is taken."""
    with narrow(strict) as socket_, connected(strict.url, sock=socket_, **DEAF) as painter:
        for number in range(JOBS):
            painter.send(type="generate", id=number, n=LONG)
        until(client, lambda now: now.of("num_images_reserved") == JOBS * LONG)
        before = Numbers(client).samples
        assert before
        assert client.post("/v1/images/generations", json={}).status_code == 200
        reset(painter)


def test_pings_of_a_deaf_client_do_not_pile_up(strict: Server, client: httpx.Client) -> None:
    with narrow(strict) as socket_, connected(strict.url, sock=socket_, **DEAF) as painter:
        before = memory(client)
        pings = [Frame(Opcode.PING, b"x" * 125)] * 1000
        for _ in range(200):  # 25 MB
            send_frames(painter, *pings)
        assert memory(client) - before < 8_000_000
        reset(painter)


def narrow(server: Server) -> closing[socket.socket]:
    """A connection that takes little that is not read."""
    address = httpx.URL(server.url)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect((address.host, address.port))
    return closing(connection)


def reset(painter: Painter) -> None:
    painter.socket.socket.shutdown(socket.SHUT_RDWR)


def memory(client: httpx.Client) -> float:
    text = client.get("/metrics").text
    return float(text.split("\nprocess_resident_memory_bytes ")[1].split()[0])


def send_frames(painter: Painter, *frames: Frame) -> None:
    """Sends frames that no library would."""
    raw = b"".join(frame.serialize(mask=True) for frame in frames)
    painter.socket.socket.sendall(raw)


def test_the_limits_are_of_each_websocket(strict: Server, client: httpx.Client) -> None:
    with connected(strict.url) as first, connected(strict.url) as second:
        for painter in (first, second):
            for number in range(JOBS):
                painter.send(type="generate", id=number, n=1)
            assert all(job.order[-1] == "done" for job in painter.hear_ends(JOBS).values())


def test_json_is_still_what_is_sent(strict: Server, client: httpx.Client) -> None:
    with connected(strict.url) as painter:
        painter.socket.send(json.dumps({"type": "generate"}))
        assert painter.hear_ends(1)[0].order[-1] == "done"


def test_what_was_refused_or_closed_is_no_fault_in_the_log(strict: Server, client: httpx.Client) -> None:
    with ExitStack() as open_ones:
        for _ in range(WEBSOCKETS):
            open_ones.enter_context(connected(strict.url))
        with pytest.raises(InvalidStatus), connected(strict.url):
            pass
    wait_until_free(client)
    log = "".join(strict.log)
    assert "[error" not in log, log
    assert "Traceback" not in log, log
