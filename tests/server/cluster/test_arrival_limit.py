"""Messages of a websocket that come faster than they are handled, as behind
Serve's proxy, which reads all of them.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest
from starlette.types import Message
from starlette.websockets import WebSocket, WebSocketDisconnect

from scanline.server.api.middleware.observe import HttpCounters
from scanline.server.cluster.arrival_limit import WebsocketArrivalLimit

Handler = Callable[[WebSocket], Awaitable[None]]
LIMIT = 10_000


class Client:
    """A websocket's client whose messages are all there at once;
    `sent` is what the server sent it.
    """

    def __init__(self, *texts: str) -> None:
        self.sent = []
        self.messages = [{"type": "websocket.connect"}]
        self.messages += [{"type": "websocket.receive", "text": text} for text in texts]
        self.taken = 0

    async def receive(self) -> Message:
        await asyncio.sleep(0)
        if self.taken == len(self.messages):
            await asyncio.Event().wait()
        self.taken += 1
        return self.messages[self.taken - 1]

    async def send(self, message: Message) -> None:
        self.sent.append(message)


def limited(
    handler: Handler, max_bytes: int = LIMIT, max_bytes_of_all: int = 100 * LIMIT
) -> WebsocketArrivalLimit:
    async def app(scope, receive, send):
        socket = WebSocket(scope, receive, send)
        await socket.accept()
        await handler(socket)

    return WebsocketArrivalLimit(app, HttpCounters(), max_bytes, max_bytes_of_all)


async def run(middleware: WebsocketArrivalLimit, *clients: Client) -> None:
    calls = [middleware({"type": "websocket"}, client.receive, client.send) for client in clients]
    await asyncio.wait_for(asyncio.gather(*calls), 60)
    assert middleware.waiting == 0


async def test_messages_that_are_handled_as_they_come_pass_whatever_their_sum():
    texts = [str(number) + "x" * 5000 for number in range(50)]
    handled = []

    async def handler(socket):
        while len(handled) < len(texts):
            handled.append(await socket.receive_text())

    await run(limited(handler), Client(*texts))
    assert handled == texts


TOO_MANY = {"large": ["x" * 3000] * 1000, "empty": [""] * 1000, "one": ["x" * (LIMIT + 1)]}


@pytest.mark.parametrize("what", TOO_MANY)
async def test_messages_that_pile_up_close_the_websocket_and_are_dropped(what):
    client = Client(*TOO_MANY[what])
    ends = []

    async def handler(socket):
        await asyncio.sleep(0.1)  # busy with something else
        with pytest.raises(WebSocketDisconnect) as caught:
            await socket.receive_text()
        ends.append(caught.value.code)
        with pytest.raises(WebSocketDisconnect):
            await socket.send_text("late")

    middleware = limited(handler)
    await run(middleware, client)
    assert ends == [1008]
    assert client.taken < 200  # the rest was not even taken in
    accepted, error, closed = client.sent
    assert accepted["type"] == "websocket.accept"
    assert json.loads(error["text"])["error"]["code"] == "too_many_messages"
    assert (closed["type"], closed["code"]) == ("websocket.close", 1008)
    assert middleware.counters.errors == {"too_many_messages": 1}


async def test_all_websockets_together_have_a_limit():
    clients = [Client("x" * 2000, "x" * 2000) for _ in range(20)]

    async def handler(socket):
        await asyncio.sleep(0.1)

    await run(limited(handler, max_bytes_of_all=30_000), *clients)
    assert (
        0
        < len([client for client in clients if client.sent[-1]["type"] == "websocket.close"])
        < len(clients)
    )
