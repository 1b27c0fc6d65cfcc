"""The way of a request through the files of this repository, counted by the profiler.

    python -m tests.support.server.walk           # a row for each kind of request
    python -m tests.support.server.walk generate  # every move of one kind, and its row

From the route's function to the pipe of the engine, on the event loop's thread; middleware is left
out. A move is a call of a function that lies in another file than its caller. A return is a move
into a file that was entered before.
"""

import asyncio
import base64
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np

from scanline.model.formats.checkpoint import save_model
from scanline.model.sampling.base.messages import GenerateRequest, ScoreRequest
from scanline.server.engine.pipe import Pipe
from scanline.server.models.registry import served_models
from scanline.server.process.app import build
from scanline.server.settings import Settings
from tests.support import small_models
from tests.support.pictures import encode
from tests.support.sampled_files import file_of

ROUTES = "server/api/routes/"
# the server's drain is the middleware's: it holds what `receive` calls
MIDDLEWARE = ("server/api/middleware/", "server/runtime/lifecycle.py")


# the profiler takes time of the event loop, for which a client would wait
OPTIONS = {
    "device": "cpu",
    "slots": 4,
    "threads": 1,
    "max_overhead_per_second": 1_000_000,
}


@dataclass
class Walk:
    """The calls of one request, in order: the file of the caller, that of the function, its name."""

    calls: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def moves(self):
        """Calls into another file; the first is into the route's."""
        return [call for call in self.calls if call[0] != call[1]]

    @property
    def files(self):
        """The files, in the order in which they are entered."""
        return list(dict.fromkeys(file for _, file, _ in self.calls))

    @property
    def row(self):
        """Calls, moves, files and returns."""
        moves = len(self.moves)
        files = len(self.files)
        return len(self.calls), moves, files, moves - files


class Profiler:
    """Records the calls of a request from its route to the engine's pipe."""

    def __init__(self):
        self.walk = Walk()
        self.is_recording = False
        self.frames = set()  # that have been entered: a coroutine resumes its own

    def __call__(self, frame, event, _):
        if event != "call" or frame in self.frames:
            return
        file = file_of(frame.f_code)
        if file is None or file.startswith(MIDDLEWARE):
            return
        self.is_recording |= file.startswith(ROUTES)
        callers = callers_of(frame)
        if not self.is_recording or not callers or not callers[-1].startswith(MIDDLEWARE):
            return  # before the route, or work that is not of the request
        self.frames.add(frame)
        self.walk.calls.append((callers[0], file, frame.f_code.co_qualname))
        if frame.f_code is Pipe.send.__code__:
            assert isinstance(frame.f_locals["message"], GenerateRequest | ScoreRequest)
            sys.setprofile(None)


def callers_of(frame):
    """The files of the product that have called a function, the nearest first."""
    files = []
    above = frame.f_back
    while above is not None:
        file = file_of(above.f_code)
        if file is not None:
            files.append(file)
        above = above.f_back
    return files


async def walks(*kinds):
    """The walks of these kinds of requests, or of all, through the application and an engine of a
    small model."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "small"
        save_model(small_models.model(small_models.GREY), directory)
        settings = Settings(models=(str(directory),), **OPTIONS)
        models = served_models(settings)
        app = build(settings, models)
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://server/v1/") as client,
        ):
            await models.default.engine.loaded.wait()
            sent = requests(await code_of(client))
            return {kind: await recorded(client, *sent[kind]) for kind in kinds or sent}


async def code_of(client):
    """The code of a picture, from a server that is ready."""
    answer = await client.post("images/codes", files={"image": picture()})
    return base64.b64decode(answer.json()["data"][0]["code"])


async def recorded(client, path, body):
    """The walk of a request that has been sent before: what is made once is there."""
    await client.post(path, **body)
    profiler = Profiler()
    sys.setprofile(profiler)
    try:
        answer = await client.post(path, **body)
    finally:
        sys.setprofile(None)
    answer.raise_for_status()
    return profiler.walk


def requests(code):
    """The path and what httpx sends, by the kind of request; code: of an image of the model."""
    height, width = small_models.GREY.image_shape
    mask = np.zeros((height, width, 2), np.uint8)  # grey and alpha: all is to be painted
    image = {"image": picture()}
    return {
        "generate": ("images/generations", {"json": {"n": 2, "seed": 7}}),
        "edit with a mask": ("images/edits", {"files": {**image, "mask": encode(mask)}}),
        "likelihood": ("images/likelihoods", {"files": image}),
        "code": ("images/codes", {"files": image}),
        "decode": ("images/decodings", {"files": {"code": code}}),
    }


def picture():
    """A picture of the model's size."""
    return encode(np.full(small_models.GREY.image_shape, 128, np.uint8))


def table(found):
    """A row for each request."""
    rows = ["| request | calls | moves | files | returns |", "|---|---|---|---|---|"]
    for kind, walk in found.items():
        rows.append(f"| {kind} | {' | '.join(map(str, walk.row))} |")
    return "\n".join(rows)


def main():
    kinds = sys.argv[1:]
    found = asyncio.run(walks(*kinds))
    for kind in kinds:
        for caller, file, name in found[kind].moves:
            print(f"{caller} -> {file} {name}")
    print(table(found))


if __name__ == "__main__":
    main()
