"""Hostile clients of a server, one of each kind, each from a loopback address of its own.

    python -m benchmarks.serving.hostile_clients URL SECONDS PICTURE [KIND ...]

Each does the same again and again until the time is up, whatever it is answered. They keep no more connections than
MAX_CONNECTIONS each and pause between rounds, so that a server that bounds them has processor time left on a machine
that runs both. Nothing but the standard library is imported, for the same reason.
"""

import asyncio
import base64
import json
import os
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

GENERATIONS, EDITS, LIKELIHOODS = (f"/v1/images/{name}" for name in ("generations", "edits", "likelihoods"))
STREAM = "/v1/images/stream"
MAX_CONNECTIONS = 64
PAUSE = 0.2  # seconds between two rounds
HELD = 20.0  # seconds for which a client keeps connections that the server does not close
UPGRADE = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13")
KEY = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="


@dataclass
class Attacker:
    """One client: its address, and what the server answered to it."""

    host: str
    port: int
    address: str  # its own
    picture: str  # base64 of a picture of the model's size
    outcomes: Counter[str] = field(default_factory=Counter)
    generator: Random = field(default_factory=lambda: Random(0))

    async def pipeline(self) -> None:
        """Send requests without end on a connection whose answers are not read."""
        await self._session(b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n" * 6000, hold=2, receive_buffer=4096)

    async def pipeline_behind(self) -> None:
        """Send a long request with another one behind it, and leave."""
        await self._session(
            self._request(GENERATIONS, {"n": 100, "class": "none"}) + self._head("GET", "/healthz"), hold=1
        )

    async def half_heads(self) -> None:
        """Open many connections that send half a head, or nothing."""
        await self._many(b"", b"GET / HTT", b"GET / HTTP/1.1\r\nHost: local", b"POST " + GENERATIONS.encode())

    async def half_bodies(self) -> None:
        """Send bodies of 16 MB whose last byte never comes."""
        await self._many(self._head("POST", EDITS, 16_000_000) + bytes(2_000_000), connections=16)

    async def bad_upgrades(self) -> None:
        """Ask for upgrades to a websocket that its protocol does not allow."""
        many = [f"x-{number}: 1" for number in range(200)]
        long = f"x-long: {'a' * 9000}"
        await self._many(
            self._head("GET", STREAM, lines=(*UPGRADE, KEY, *many)),
            self._head("GET", STREAM, lines=(*UPGRADE, KEY, long)),
            self._head("GET", STREAM + "?" + "a" * 9000, lines=(*UPGRADE, KEY)),
            self._head("POST", STREAM, 5, lines=(*UPGRADE, KEY)) + b"hello",
            self._head("GET", STREAM, lines=UPGRADE),
            connections=10,
        )

    async def unread_answers(self) -> None:
        """Ask for large answers and read nothing."""
        await self._many(
            self._head("GET", "/openapi.json") * 100,
            self._head("GET", "/assets/") + self._head("GET", "/") * 200,
            self._request(GENERATIONS, {"n": 1, "class": "none"}) * 4,
            receive_buffer=2048,
            connections=24,
        )

    async def nonsense_keys(self) -> None:
        """Send JSON of many keys that mean nothing, as a body and as a message."""
        text = json.dumps({f"k{number}": 0 for number in range(300_000)}).encode()
        await self._post(GENERATIONS, text)
        await self._post(EDITS, text)
        await self._message(text)

    async def nested(self) -> None:
        """Send deep and wide lists where a picture is expected."""
        await self._post(EDITS, b'{"image": ' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}")
        await self._post(EDITS, b'{"image": [' + b"[]," * 900_000 + b"[]]}")
        await self._message(b'{"type": "complete", "image": [' + b"1," * 2_000_000 + b"1]}")

    async def repeated_words(self) -> None:
        """Send long values of fields that a refusal could repeat."""
        for name in ("type", "model", "size", "id"):
            await self._message(json.dumps({"type": "generate", name: "\x7f" * 400_000}).encode())

    async def unfinished_messages(self) -> None:
        """Send websocket messages of 16 MB whose end never comes, whole and in fragments."""
        whole = [self._frame(bytes(15_900_000), length=16_000_000)]
        parts = [self._frame(bytes(60_000), opcode=0 if part else 1, final=False) for part in range(200)]
        sessions = (self._session(*data, hold=HELD / 4, upgrade=True, read=False) for data in 8 * (whole, parts))
        await asyncio.gather(*sessions)

    async def unread_streams(self) -> None:
        """Ask over websockets for as much as a client may and read nothing."""
        jobs = self._frame(b'{"type": "generate", "n": 1024, "class": "none"}') * 8
        options = {"hold": HELD, "upgrade": True, "receive_buffer": 2048, "read": False}
        await asyncio.gather(*(self._session(jobs, **options) for _ in range(4)))

    async def flood(self) -> None:
        """Send as many requests as connections allow, for one image and for as many as a request may have."""
        await self._many(*(self._request(GENERATIONS, {"n": n, "class": "none"}) for n in (1024, 1, 1, 1)))

    async def likelihoods(self) -> None:
        """Ask for likelihoods of a thousand pictures, with the bits of every byte."""
        await self._post(LIKELIHOODS, json.dumps({"image": [self.picture] * 1000, "per_pixel": True}).encode())

    async def edits(self) -> None:
        """Ask for completions of many different known images, two of each."""
        fields = {"image": [self.picture] * 100, "keep_rows": 10, "n": 2}
        await self._many(self._request(EDITS, fields), connections=8)

    async def fast_messages(self) -> None:
        """Send websocket messages as fast as they go."""
        await self._session(*50 * [self._frame(b'{"type": "generate"') * 200], hold=0, upgrade=True)

    async def broken_pictures(self) -> None:
        """Send files that are nearly pictures."""
        whole = base64.b64decode(self.picture)
        for _ in range(20):
            data = bytearray(whole)
            for _ in range(3):
                data[self.generator.randrange(len(data))] = self.generator.randrange(256)
            image = base64.b64encode(bytes(data)).decode()
            await self._post(EDITS, json.dumps({"image": image, "keep_rows": 10}).encode())

    def kinds(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the methods above by name: all that are public but this one and the next."""
        names = [name for name in vars(Attacker) if not name.startswith("_") and name not in ("kinds", "repeat")]
        return {name: getattr(self, name) for name in names if callable(getattr(self, name))}

    async def repeat(self, kind: str, seconds: float) -> None:
        """Do one kind again and again."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                async with asyncio.timeout(min(HELD * 2, end - time.monotonic())):
                    await self.kinds()[kind]()
                self.outcomes["rounds"] += 1
            except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
                if time.monotonic() < end:
                    self.outcomes[type(error).__name__] += 1
            await asyncio.sleep(PAUSE)

    async def _many(self, *heads: bytes, connections: int = MAX_CONNECTIONS, receive_buffer: int = 0) -> None:
        """Hold connections that send one of `heads` each until the server closes them."""
        options = {"hold": HELD, "receive_buffer": receive_buffer, "read": not receive_buffer}
        sessions = (self._session(heads[number % len(heads)], **options) for number in range(connections))
        await asyncio.gather(*sessions)

    async def _post(self, path: str, body: bytes) -> None:
        await self._session(self._head("POST", path, len(body)) + body, hold=HELD, is_last=True)

    async def _message(self, text: bytes) -> None:
        await self._session(self._frame(text), hold=2, upgrade=True)

    async def _session(
        self,
        *data: bytes,
        hold: float,
        upgrade: bool = False,
        receive_buffer: int = 0,
        read: bool = True,
        is_last: bool = False,
    ) -> None:
        """Send data on a connection or websocket of its own, read for up to `hold` seconds or not, and reset it."""
        writer = None
        try:
            reader, writer = await self._connect(receive_buffer)
            if upgrade:
                await self._send(writer, self._head("GET", STREAM, lines=(*UPGRADE, KEY)))
                answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HELD)
                self.outcomes[answer.split(b" ", 2)[1].decode()] += 1
            for piece in data:
                await self._send(writer, piece)
            await (self._hold(reader, hold, is_last) if read else asyncio.sleep(hold))
        except OSError as error:
            self.outcomes[type(error).__name__] += 1
        finally:
            if writer is not None:
                with suppress(OSError):
                    raw = writer.get_extra_info("socket")
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()

    async def _connect(self, receive_buffer: int = 0) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        own = socket.socket()
        own.setblocking(False)
        if receive_buffer:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        own.bind((self.address, 0))
        await asyncio.get_running_loop().sock_connect(own, (self.host, self.port))
        return await asyncio.open_connection(sock=own, limit=receive_buffer or 65536)

    async def _send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        """Send without waiting for more than a few seconds where the server does not read."""
        writer.write(data)
        with suppress(TimeoutError):
            await asyncio.wait_for(writer.drain(), 5)

    async def _hold(self, reader: asyncio.StreamReader, seconds: float, is_last: bool = False) -> None:
        """Note the first answer's status and read until the server closes; with `is_last`, until that is complete."""
        with suppress(TimeoutError, asyncio.IncompleteReadError):
            async with asyncio.timeout(seconds):
                head = await reader.readuntil(b"\r\n\r\n")
                if head.startswith(b"HTTP/"):
                    self.outcomes[head.split(b" ", 2)[1].decode()] += 1
                lengths = [line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                if lengths and is_last:
                    await reader.readexactly(int(lengths[0]))
                    return
                while await reader.read(65536):
                    pass

    def _request(self, path: str, fields: dict[str, object]) -> bytes:
        body = json.dumps(fields).encode()
        return self._head("POST", path, len(body)) + body

    def _head(self, method: str, path: str, length: int | None = None, lines: tuple[str, ...] = ()) -> bytes:
        size = () if length is None else ("Content-Type: application/json", f"Content-Length: {length}")
        return "\r\n".join(
            (f"{method} {path} HTTP/1.1", f"Host: {self.host}:{self.port}", *size, *lines, "", "")
        ).encode()

    def _frame(self, data: bytes, opcode: int = 1, final: bool = True, length: int | None = None) -> bytes:
        """Return a masked websocket frame; `length` is what it claims."""
        size = len(data) if length is None else length
        first = bytes([opcode | (128 if final else 0)])
        small = bytes([128 | size]) if size < 126 else None
        long = struct.pack(">BH", 254, size) if size < 65536 else struct.pack(">BQ", 255, size)
        return first + (small or long) + bytes(4) + data


async def attack(url: str, seconds: float, kinds: list[str], picture: str) -> dict[str, Counter[str]]:
    """Run one client of each kind at once; return what each was answered."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    attackers = {
        kind: Attacker(host, int(port), f"127.0.0.{10 + number}", picture) for number, kind in enumerate(kinds)
    }
    await asyncio.gather(*(attacker.repeat(kind, seconds) for kind, attacker in attackers.items()))
    return {kind: attacker.outcomes for kind, attacker in attackers.items()}


def main() -> None:
    url, seconds, picture, *kinds = sys.argv[1:]
    os.nice(10)  # the server and its honest clients come first
    print(json.dumps(asyncio.run(attack(url, float(seconds), kinds, picture))))


if __name__ == "__main__":
    main()
