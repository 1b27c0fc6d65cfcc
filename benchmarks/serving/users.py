"""Users of a server, each kind with its own form of request, and what they saw of it.

Answers to right requests must be the offline generator's bytes, wrong requests must be refused, and clients that leave
must leave nothing behind.
"""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from benchmarks.serving.client import (
    EDITS,
    GENERATIONS,
    KEPT_ROWS,
    LIKELIHOODS,
    LOST,
    TIMEOUT,
    Answer,
    Expected,
    HttpClient,
    open_websocket,
    over_websocket,
    post_events,
    post_json,
    post_npy,
)

BAD_REQUESTS = (
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


FORMS = {
    "JSON": (post_json, GENERATIONS),
    "array": (post_npy, GENERATIONS),
    "edit": (post_json, EDITS),
    "events": (post_events, GENERATIONS),
    "edit, events": (post_events, EDITS),
}


class WrongError(Exception):
    """An answer with other bytes than the offline generator's, or a wrong request that was not refused."""


@dataclass
class Seen:
    """What users saw: requests answered, wrong and lost."""

    done: Counter[str] = field(default_factory=Counter)  # by user
    wrong: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)

    async def repeat(
        self, name: str, user: Callable[[], Awaitable[None]], end: float, pause: Callable[[], float]
    ) -> None:
        """Let a user do the same again and again until `end`; then the last request is finished."""
        while time.monotonic() < end:
            try:
                async with asyncio.timeout(TIMEOUT):
                    await user()
                self.done[name] += 1
            except WrongError as error:
                self.wrong[f"{name}: {error}"] += 1
            except LOST as error:
                self.lost[f"{name}: {type(error).__name__} {error}"] += 1
            await asyncio.sleep(pause())

    def failures(self) -> Iterator[str]:
        """Yield what was wrong or lost, each with its number."""
        for word, counted in (("wrong", self.wrong), ("lost", self.lost)):
            yield from (f"{word}: {what} ({times} times)" for what, times in counted.items())


class Users:
    """All kinds of users of one server. A slow reader does not read for up to `pause` seconds."""

    def __init__(self, url: str, expected: Expected, pause: float) -> None:
        self.url, self.expected, self.pause = url, expected, pause
        self.client, self.random = HttpClient(url), random.Random(0)

    def kinds(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return what each kind of user does once, by name."""
        return {
            **{name: partial(self.ask, name) for name in FORMS},
            "likelihood": self.likelihood,
            "websocket": self.websocket,
            "websocket, completion": self.completion,
            "websocket, slow": self.slow_websocket,
            "websocket, cancelled": self.cancelled,
            "leaves a POST": lambda: self._leave(self.ask("JSON")),
            "leaves events": lambda: self._leave(self.ask("events")),
            "leaves a websocket": self.leaves_websocket,
            "bad request": self.bad_request,
            "bad message": self.bad_message,
        }

    async def ask(self, form: str) -> None:
        post, path = FORMS[form]
        fields = self._completion() if path == EDITS else self._generation()
        self._compare(await post(self.client, path, fields), fields)

    async def likelihood(self) -> None:
        seed = self.random.choice(list(self.expected.bits_per_dim))
        body = await self.client.ask(LIKELIHOODS, {"image": [self.expected.picture(seed)]})
        if json.loads(body)["data"][0]["bits_per_dim"] != self.expected.bits_per_dim[seed]:
            raise WrongError("other bits than the offline generator's")

    async def websocket(self, pause: float = 0.0, **options: Any) -> None:
        async with open_websocket(self.url, **options) as socket:
            for _ in range(2):
                fields = self._generation()
                self._compare(await over_websocket(socket, fields, pause), fields)

    async def slow_websocket(self) -> None:
        await self.websocket(self.pause * self.random.random(), max_queue=1)

    async def completion(self) -> None:
        async with open_websocket(self.url) as socket:
            fields = self._completion()
            self._compare(await over_websocket(socket, fields), fields)

    async def cancelled(self) -> None:
        """Cancel a job that may be done before: the server answers in either case, and the next job is right."""
        async with open_websocket(self.url) as socket:
            await socket.send(json.dumps({"type": "generate", "id": "first", "n": self.expected.most, "class": "none"}))
            await asyncio.sleep(self.random.random())
            await socket.send(json.dumps({"type": "cancel", "id": "first"}))
            while True:
                message = await socket.recv()
                if isinstance(message, str) and json.loads(message)["type"] in ("done", "error"):
                    break
            if json.loads(message).get("cancelled") is None:  # it was done, so an error answers the cancel
                error = json.loads(await socket.recv())
                if error.get("error", {}).get("code") != "job_not_found":
                    raise WrongError(f"{error} for cancelling a job that was done")
            fields = self._generation()
            answer = await over_websocket(socket, {**fields, "id": "second"})
            self._compare(answer, fields)

    async def leaves_websocket(self) -> None:
        """Close the connection without a closing handshake."""
        async with open_websocket(self.url) as socket:
            await socket.send(json.dumps({"type": "generate", "n": self.expected.most, "class": "none"}))
            await asyncio.sleep(2 * self.random.random())
            socket.transport.abort()

    async def bad_request(self) -> None:
        path, body, status = self.random.choice(BAD_REQUESTS)
        returned, answer = await self.client.post(path, body)
        if returned != status or not json.loads(answer)["error"]["message"]:
            raise WrongError(f"{returned} for {body!r}")

    async def bad_message(self) -> None:
        async with open_websocket(self.url) as socket:
            for message in BAD_MESSAGES:
                await socket.send(message)
                event = json.loads(await socket.recv())
                if event["type"] != "error" or not event["error"]["message"]:
                    raise WrongError(f"{event} for {message!r}")
            fields = self._generation()
            self._compare(await over_websocket(socket, fields), fields)

    def _generation(self) -> dict[str, Any]:
        n = self.random.randint(1, self.expected.most)
        return {"seed": self.random.choice(list(self.expected.images)), "n": n, "class": "none"}

    def _completion(self) -> dict[str, Any]:
        fields = self._generation()
        return {**fields, "image": self.expected.picture(fields["seed"]), "keep_rows": KEPT_ROWS}

    def _compare(self, answer: Answer, fields: dict[str, Any]) -> None:
        expected = self.expected.completed if "image" in fields else self.expected.images
        if not np.array_equal(answer.images, expected[fields["seed"]][: fields["n"]]):
            raise WrongError("other bytes than the offline generator's")

    async def _leave(self, request: Awaitable[None]) -> None:
        """Close the connection within two seconds, unless the request is answered before."""
        task = asyncio.ensure_future(request)
        await asyncio.wait({task}, timeout=2 * self.random.random())
        if task.done():
            return task.result()
        task.cancel()
        await asyncio.wait({task})
