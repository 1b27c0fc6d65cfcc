"""The users of a soak, of every kind: who asks rightly is held against the offline generator's bytes, who asks wrongly
is to be refused, who leaves is to leave nothing.
"""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import numpy as np
import traffic
from traffic import RefusedError
from truth import KEPT_ROWS, Truth

SEEDS, MOST = 6, 6  # images of a request
GENERATIONS, EDITS, LIKELIHOODS = (f"/v1/images/{name}" for name in ("generations", "edits", "likelihoods"))
BAD = (
    (GENERATIONS, b"{", 400),
    (GENERATIONS, b'{"n": 1e400}', 400),
    (GENERATIONS, b'{"temprature": 1}', 400),
    (GENERATIONS, b'{"n": 1000000}', 400),
    (GENERATIONS, b'{"model": "nobody"}', 404),
    (EDITS, b'{"image": "bm8gcGljdHVyZQ==", "keep_rows": 3}', 400),
    (EDITS, b'{"keep_rows": 3}', 400),
    (LIKELIHOODS, b'{"image": ["!"]}', 400),
    ("/v1/images/nothing", b"{}", 404),
)
BAD_MESSAGES = ("{", "[]", '{"type": "paint"}', '{"type": "generate", "n": 0}', '{"type": "cancel", "id": 7}', b"\x00")


class WrongError(Exception):
    """An answer that is not what the offline generator paints, or that should have been a refusal."""


class Users:
    """All of one server; a slow one does not read for at most `spell` seconds."""

    def __init__(self, url: str, truth: Truth, spell: float) -> None:
        self.url, self.truth, self.spell = url, truth, spell
        self.client: httpx.AsyncClient = traffic.client(url)
        self.random = random.Random(0)
        height, width, channels = truth.config.image_shape + (1,) * (3 - len(truth.config.image_shape))
        shape = (height, width) if channels == 1 else (height, width, channels)
        self.pictures = {seed: traffic.png(truth.known(seed).reshape(shape)) for seed in truth.images}

    def kinds(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """What each does once, by name."""
        return {
            "JSON": self.json,
            "array": self.array,
            "edit": self.edit,
            "likelihood": self.likelihood,
            "events": self.events,
            "edit, events": self.edit_events,
            "websocket": self.websocket,
            "websocket, completion": self.completion,
            "websocket, slow": self.slow_websocket,
            "websocket, cancelled": self.cancelled,
            "leaves a POST": self.leaves_post,
            "leaves events": self.leaves_events,
            "leaves a websocket": self.leaves_websocket,
            "bad request": self.bad_request,
            "bad message": self.bad_message,
        }

    def ask(self) -> tuple[int, int, dict[str, Any]]:
        """Seed, images, and the fields that ask for them."""
        seed, n = self.random.randrange(SEEDS), self.random.randint(1, MOST)
        return seed, n, {"seed": seed, "n": n}

    def ask_edit(self) -> tuple[int, int, dict[str, Any]]:
        seed, n, fields = self.ask()
        return seed, n, {**fields, "image": self.pictures[seed], "keep_rows": KEPT_ROWS}

    def hold(self, answer: traffic.Answer, painted: dict[int, np.ndarray], seed: int, n: int) -> None:
        if not np.array_equal(answer.images, painted[seed][:n]):
            raise WrongError("other bytes than the offline generator's")

    async def json(self) -> None:
        seed, n, fields = self.ask()
        self.hold(await traffic.post_json(self.client, GENERATIONS, fields), self.truth.images, seed, n)

    async def array(self) -> None:
        seed, n, fields = self.ask()
        self.hold(await traffic.post_npy(self.client, GENERATIONS, fields), self.truth.images, seed, n)

    async def edit(self) -> None:
        seed, n, fields = self.ask_edit()
        self.hold(await traffic.post_json(self.client, EDITS, fields), self.truth.completed, seed, n)

    async def likelihood(self) -> None:
        seed = self.random.randrange(SEEDS)
        answer = await self.client.post(LIKELIHOODS, json={"image": [self.pictures[seed]]})
        if answer.status_code != 200:
            raise RefusedError(answer.status_code, answer.json()["error"]["code"])
        if answer.json()["data"][0]["bits_per_dim"] != self.truth.bits[seed]:
            raise WrongError("other bits than the offline generator's")

    async def events(self) -> None:
        seed, n, fields = self.ask()
        self.hold(await traffic.events(self.client, GENERATIONS, fields, n), self.truth.images, seed, n)

    async def edit_events(self) -> None:
        seed, n, fields = self.ask_edit()
        self.hold(await traffic.events(self.client, EDITS, fields, n), self.truth.completed, seed, n)

    async def websocket(self, sleep: float = 0.0, **options: Any) -> None:
        async with traffic.connect_to(self.url, **options) as socket:
            for _ in range(2):
                seed, n, fields = self.ask()
                self.hold(await traffic.over_websocket(socket, fields, sleep), self.truth.images, seed, n)

    async def slow_websocket(self) -> None:
        await self.websocket(self.spell * self.random.random(), max_queue=1)

    async def completion(self) -> None:
        async with traffic.connect_to(self.url) as socket:
            seed, n, fields = self.ask_edit()
            self.hold(await traffic.over_websocket(socket, fields), self.truth.completed, seed, n)

    async def cancelled(self) -> None:
        """A job that is cancelled, unless it was done before: either way it is told, and the next one is right."""
        async with traffic.connect_to(self.url) as socket:
            await socket.send(json.dumps({"type": "generate", "id": "first", "n": MOST}))
            await asyncio.sleep(self.random.random())
            await socket.send(json.dumps({"type": "cancel", "id": "first"}))
            while True:
                message = await socket.recv()
                if isinstance(message, str) and json.loads(message)["type"] in ("done", "error"):
                    break
            if json.loads(message).get("cancelled") is None:  # done before: what follows is the refusal to cancel it
                refused = json.loads(await socket.recv())
                if refused.get("error", {}).get("code") != "job_not_found":
                    raise WrongError(f"told {refused} where nothing was left to cancel")
            seed, n, fields = self.ask()
            self.hold(await traffic.over_websocket(socket, {**fields, "id": "second"}), self.truth.images, seed, n)

    async def leaves_post(self) -> None:
        await self.leave(self.json())

    async def leaves_events(self) -> None:
        await self.leave(self.events())

    async def leaves_websocket(self) -> None:
        """Without a closing handshake."""
        async with traffic.connect_to(self.url) as socket:
            await socket.send(json.dumps({"type": "generate", "n": MOST}))
            await asyncio.sleep(2 * self.random.random())
            socket.transport.abort()

    async def leave(self, work: Awaitable[None]) -> None:
        """Closes the connection in the midst of it."""
        task = asyncio.ensure_future(work)
        await asyncio.wait({task}, timeout=2 * self.random.random())
        if task.done():
            return task.result()
        task.cancel()
        await asyncio.wait({task})

    async def bad_request(self) -> None:
        path, body, status = self.random.choice(BAD)
        answer = await self.client.post(path, content=body, headers={"content-type": "application/json"})
        if answer.status_code != status or not answer.json()["error"]["message"]:
            raise WrongError(f"{answer.status_code} for {body!r}")

    async def bad_message(self) -> None:
        async with traffic.connect_to(self.url) as socket:
            for message in BAD_MESSAGES:
                await socket.send(message)
                told = json.loads(await socket.recv())
                if told["type"] != "error" or not told["error"]["message"]:
                    raise WrongError(f"told {told} for {message!r}")
            seed, n, fields = self.ask()
            self.hold(await traffic.over_websocket(socket, fields), self.truth.images, seed, n)
