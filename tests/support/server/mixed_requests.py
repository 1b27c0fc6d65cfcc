"""Mixes of requests of every kind over HTTP, each answer compared
with that to the same request alone.

    python -m tests.support.server.mixed_requests --requests 5000 [--seed 0]
    [--kill] [--reload] [--api-processes 2]

A mix is drawn from its seed and sent at once, by several clients, to a server of two models with
few slots; some of the clients leave early, and one has room for few bytes that it has not read.
Invariant: an answer has the same bytes whatever else is asked meanwhile, and whether or not an
engine is killed or the models are reloaded, but for what VARIES names. In the end every room,
budget and count of the server is 0.
"""

import argparse
import io
import itertools
import json
import os
import random
import re
import signal
import socket
import sys
import tempfile
import threading
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from scanline.model.base.config import ModelConfig
from scanline.model.formats.code_file import MEDIA_TYPE
from scanline.model.images.contact_sheet import UNPAINTED
from tests.support import shapes, small_models
from tests.support.pictures import decode, encode, painted, text
from tests.support.server.error_answers import assert_refused
from tests.support.server.metrics_reader import wait_until_empty, wait_until_idle
from tests.support.server.running_server import Server
from tests.support.server.shared_servers import NO_DEADLINE, NO_DELAY, serve_with
from tests.support.server.sockets import CLOSES, open_connection, post_request
from tests.support.server.sse_reader import named, read
from tests.support.server.websocket_client import LAST, connected
from tests.support.waiting import PATIENCE, wait_for

CLASSES = (*small_models.CLASSES["classes"], ("q",), ("Q",))
SHARED = {**small_models.WINDOW, **small_models.CLASSES, "classes": CLASSES}
STROKES = {**small_models.WAVES, **SHARED, "predicts": "categorical", "mirrored": True}
MODELS = {
    "strokes": small_models.config(height=22, width=16, **STROKES),
    "pixels": small_models.config(height=12, width=11, **small_models.COLOUR_PIXELS, **SHARED),
}
DEFAULT_MODEL = "strokes"
DEFAULTS = {"class": "any", "guidance": 1.5, "temperature": 0.9, "particles": 3}  # of the other one
SLOTS = 12
# mixes after which a server grows no more, but for so many bytes
WARM = 20
GROWTH = 32e6
CLIENTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
VARIES = re.compile(rb'"created":[^,}]+')
NPY = "application/x-npy"
WEIGHTED = {  # by Accept: another one that prefers the same
    "*/*": "image/png;q=0.2, application/json",
    "image/png": "application/json;q=0.3, image/png;q=0.9, */*;q=0.1",
    NPY: f"image/*;q=0.1, {NPY}",
    "image/gif": "image/webp;q=0.1, image/gif",
}
# of answers: the fields that ask for each, and Accept
FORMS: dict[str, tuple[dict[str, Any], str]] = {
    "JSON": ({}, "*/*"),
    "data URLs": ({"response_format": "url", "output_format": "webp"}, "*/*"),
    "sheet": ({}, "image/png"),
    "array": ({}, NPY),
    "film": ({"frames": 4, "seconds": 0.5, "scale": 2}, "image/gif"),
    "films": ({"output_format": "apng", "frames": 3, "scale": 1}, "*/*"),
    "events": ({"stream": True, "partial_images": 3}, "*/*"),
}
REFUSED: list[tuple[str, dict[str, Any], tuple[int, str, str]]] = [
    ("generations", {"prompt": "a cat"}, (400, "prompt", "prompt_not_supported")),
    ("generations", {"model": "nobody"}, (404, "model", "model_not_found")),
    ("edits", {"image": b"no picture", "keep_rows": 3}, (400, "image", "invalid_image")),
    ("decodings", {"code": b"no code"}, (400, "code", "invalid_code")),
]
KINDS = {
    "generations",
    "edits",
    "likelihoods",
    "known pixels",
    "classifications",
    "steps",
    "codes",
    "decodings",
}
KINDS |= {
    "guidance",
    "particles",
    "websocket",
    "cancelled",
    "left",
    "refused",
    "form",
    "resized",
    "written",
    *FORMS,
}
KINDS |= {"default model", "weighted", "listed", "body", "some images", "unchecked"}
WORDS = {"7": ("7", "Seven"), "horse": ("horse", "HORSE"), "shell": ("shell", "Sea  Shell")}
Fields = dict[str, Any]  # files are bytes
Answer = dict[str, Any]  # parts whose names begin with "partial" may be missing


@dataclass(frozen=True)
class Call:
    route: str
    kinds: tuple[str, ...]
    fields: Fields
    accept: str = "*/*"
    # the status, parameter and code of the error that must come
    refused: tuple[int, str, str] | None = None
    leaves: tuple[str, int] | None = None  # how the client leaves, after so many milliseconds

    def answer(self, server: Server, client: httpx.Client, alone: bool) -> Answer:
        if self.leaves:
            close, milliseconds = self.leaves
            with open_connection(server) as connection:
                connection.sendall(
                    post_request(
                        f"/v1/images/{self.route}", as_json(self.fields), accept=self.accept
                    )
                )
                time.sleep(milliseconds / 1000)
                CLOSES[close](connection)
            return {}
        response = self.response(client)
        if "events" in self.kinds:
            return answer_of_events([*response.iter_lines()])
        heads = {name: response.headers.get(name) for name in ("content-type", "x-scanline-seed")}
        return {**heads, "body": VARIES.sub(b"", response.content)}

    def response(self, client: httpx.Client) -> httpx.Response:
        url = f"/v1/images/{self.route}"
        headers = {"accept": self.accept}
        body = as_form(self.fields) if "form" in self.kinds else {"json": as_json(self.fields)}
        if "body" in self.kinds:
            body, headers["content-type"] = {"content": self.fields["code"][0]}, MEDIA_TYPE
        response = client.post(url, **body, headers=headers)
        if self.refused:
            assert_refused(response, *self.refused)
        else:
            assert response.status_code == 200, f"{response.status_code} {response.text}"
        return response


@dataclass(frozen=True)
class Coding:
    """Pictures that are encoded, and their codes decoded: to their
    pixels, and as another call has it.
    """

    kinds: tuple[str, ...]
    codes: Call
    pixels: list[np.ndarray]
    decoding: Call

    def answer(self, server: Server, client: httpx.Client, alone: bool) -> Answer:
        encoded = self.codes.response(client)
        is_file = encoded.headers["content-type"] == MEDIA_TYPE
        codes = (
            [encoded.content]
            if is_file
            else [b64decode(each["code"]) for each in encoded.json()["data"]]
        )
        kinds = ("body",) if len(codes) == 1 else ()
        decoded = Call("decodings", kinds, {"code": codes}, NPY).response(client).content
        assert np.array_equal(np.load(io.BytesIO(decoded)), self.pixels), (
            "other pixels than those encoded"
        )
        answer = replace(self.decoding, fields={**self.decoding.fields, "code": codes}).answer(
            server, client, alone
        )
        return {**answer, "codes": VARIES.sub(b"", encoded.content)}


@dataclass(frozen=True)
class Jobs:
    """Jobs of one websocket, of which some are cancelled after so many messages."""

    kinds: tuple[str, ...]
    jobs: list[Fields]
    cancelled: list[int]  # their ids
    after: int

    def answer(self, server: Server, client: httpx.Client, alone: bool) -> Answer:
        """Alone, they are painted one after the other, without those that are cancelled."""
        kept = [job for job in self.jobs if job["id"] not in self.cancelled]
        with connected(server.url) as socket:
            if alone:
                for job in kept:
                    socket.paint(**as_json(job))
            else:
                socket.send_together(*map(as_json, self.jobs))
                received = 0
                while sum(job.order[-1] in LAST for job in socket.jobs.values()) < len(self.jobs):
                    socket.receive()
                    received += 1
                    for name in self.cancelled if received == self.after else ():
                        socket.send(type="cancel", id=name)
        answer: Answer = {}
        for name in (job["id"] for job in kept):
            found = socket.jobs[name]
            assert found.order[-1] == "done", found.messages[-1]
            started, *messages = found.messages
            answer |= {
                f"image {one['index']} of {name}": one for one in messages if one["type"] == "image"
            }
            answer |= {
                f"partial state {one['position']} of {name}": one
                for one in messages
                if one["type"] == "state"
            }
            answer |= {
                f"job {name}": {**started, "job": 0},
                f"pixels of {name}": found.images().tobytes(),
            }
        return answer


Request = Call | Coding | Jobs


def is_written(fields: Fields) -> bool:
    """Whether the prompt is a list of characters that are classes."""
    prompt = fields.get("prompt", "")
    return len(prompt) > 1 and " " not in prompt


def as_json(fields: Fields) -> Fields:
    return json.loads(json.dumps(fields, default=text))


def as_form(fields: Fields) -> Fields:
    files = [
        (name, each)
        for name in ("image", "mask")
        for each in np.atleast_1d(fields.get(name, [])).tolist()
    ]
    numbers = {
        name: json.dumps(value).strip('"')
        for name, value in fields.items()
        if name not in ("image", "mask")
    }
    return {"files": files, "data": numbers}


def many(fields: Fields, n: int) -> Fields:
    """The same request for `n` images."""
    classes = fields.get("class")
    fields = {**fields, "n": n}
    if isinstance(classes, list):
        fields["class"] = classes[:1] * n
    elif is_written(fields):
        fields["prompt"] = "7" * n
    return fields


def answer_of_events(lines: list[str]) -> Answer:
    """Partial images must be beginnings of the images, unless they are provisional."""
    events = [{**event, "created_at": 0} for event in read(iter(lines))]
    assert not [event for event in events if "error" in event], events
    answer = {f"image {event['index']}": event for event in named(events, "completed")}
    for event in named(events, "partial_image"):
        if "provisional" not in event:
            seen, final = painted({"data": [event, answer[f"image {event['index']}"]]})
            assert (seen[seen != final] == UNPAINTED).all(), (
                f"a partial image is no beginning: {event}"
            )
            answer[f"partial image {event['partial_image_index']} of {event['index']}"] = event
    return answer


def difference(found: Answer | str, alone: Answer | str) -> str:
    """What failed, or the first difference, in words; empty where there is none."""
    if isinstance(found, str) or isinstance(alone, str):
        return found if isinstance(found, str) else f"alone, {alone}"
    for name in sorted(found.keys() | alone.keys()):
        one = found.get(name)
        other = alone.get(name)
        if one != other and not (name.startswith("partial") and None in (one, other)):
            return f"{name}: {one!r:.500} instead of {other!r:.500}"
    return ""


class Mix:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.watched = 0
        # what was added later, so that the mixes stay what they were
        self.more = random.Random(f"more of {seed}")
        draws: dict[Callable[[], Request], int] = {
            self.generation: 5,
            self.edit: 5,
            self.likelihood: 2,
        }
        draws |= {
            self.known_pixels: 1,
            self.classification: 2,
            self.steps: 1,
            self.coding: 2,
            self.websocket: 2,
        }
        draws |= {self.leaver: 2, self.refusal: 1}
        drawn = self.rng.choices([*draws], [*draws.values()], k=self.rng.randrange(20, 41))
        self.requests = [self.sent(draw()) for draw in drawn]
        self.kinds = Counter(kind for request in self.requests for kind in request.kinds)

    def faults(self, server: Server, kills: bool = False, reloads: bool = False) -> list[str]:
        """Send all requests at once, then each alone; return what is wrong."""
        count = len(self.requests)
        engines = server.engines()
        victim = self.rng.choice(engines) if kills else 0
        ending = {*engines} if reloads else {victim}
        begin = threading.Barrier(count)
        answered = itertools.count(1)
        with ExitStack() as stack, ThreadPoolExecutor(count) as pool:
            transports = []
            for address in CLIENTS:
                narrow = (
                    [(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)] if address == CLIENTS[-1] else []
                )
                options = {"local_address": address, "socket_options": narrow}
                transports.append(httpx.HTTPTransport(verify=False, **options))  # type: ignore[arg-type]
            clients = [
                stack.enter_context(server.client(transport=transport)) for transport in transports
            ]

            def attempt(number: int, alone: bool) -> Answer | str:
                try:
                    return self.requests[number].answer(
                        server, clients[number % len(clients)], alone
                    )
                except Exception as error:
                    return f"{type(error).__name__}: {error!s:.1000}"

            def meet(number: int) -> Answer | str:
                begin.wait(PATIENCE)
                answer = attempt(number, alone=False)
                number_of_answer = next(answered)
                if number_of_answer == count // 4 and victim:
                    os.kill(victim, signal.SIGKILL)
                if number_of_answer == count // 3 and reloads:
                    server.process.send_signal(signal.SIGHUP)
                return answer

            met = [*pool.map(meet, range(count))]
            wait_for(
                lambda: len({*server.engines()} - ending) == len(MODELS), "one engine of each model"
            )
            wait_until_idle(clients[0])
            faults = []
            for number, (request, found) in enumerate(zip(self.requests, met, strict=True)):
                alone = {} if "left" in request.kinds else attempt(number, alone=True)
                if fault := difference(found, alone):
                    faults.append(
                        f"request {number} ({', '.join(request.kinds)}): {fault}; {request!r:.500}"
                    )
        with server.client() as client:
            wait_until_empty(client)
        return faults

    def sent(self, request: Request) -> Request:
        """The request, or the same in other words; as a form where it has pictures."""
        if not isinstance(request, Call) or request.leaves:
            return request
        kinds = [*request.kinds]
        fields = {**request.fields}
        accept = request.accept
        if "image" in fields and self.more.random() < 0.4:
            kinds.append("form")
        if fields.get("model") == DEFAULT_MODEL and self.more.random() < 0.3:
            kinds.append("default model")
            del fields["model"]
        if accept in WEIGHTED and self.more.random() < 0.3:
            kinds.append("weighted")
            accept = WEIGHTED[accept]
        return replace(request, kinds=tuple(kinds), fields=fields, accept=accept)

    def generation(self) -> Call:
        fields = self.painting()
        if self.more.random() < 0.2:  # more than there are slots
            del fields["n"]
            fields.pop("prompt", None)
            fields["class"] = self.more.choices(
                ("7", "Horse", "sea shell", "q", "Q", "none"), k=SLOTS + 3
            )
        return self.shown("generations", fields)

    def edit(self) -> Call:
        return self.shown("edits", self.completion())

    def likelihood(self) -> Call:
        fields = {
            **self.given(4),
            "per_pixel": self.drawn(0.5),
            **self.rng.choice(({}, {"class": "horse"})),
        }
        return Call("likelihoods", ("likelihoods",), fields)

    def known_pixels(self) -> Call:
        fields = self.given(2)
        known = self.known(MODELS[fields["model"]])
        known[0, 0], known[-1, -1] = 255, 0  # with no known pixel, or no hidden one, it is refused
        fields |= {
            "mask": encode(known),
            "particles": self.rng.choice((1, 3, SLOTS)),
            "repeats": 2,
            "seed": 1,
        }
        fields |= self.more.choice(({}, {"class": "sea shell"}))
        return Call("likelihoods", ("known pixels",), fields)

    def classification(self) -> Call:
        fields = {**self.given(4), "by_bits": self.drawn(0.5)}
        return Call("classifications", ("classifications",), fields)

    def steps(self) -> Call:
        fields = self.given(1)
        first = self.rng.randrange(MODELS[fields["model"]].steps)
        fields |= self.more.choice(({}, {"class": "seven"}))
        return Call(
            "steps", ("steps",), {**fields, "layer": 1, "head": 1, "first": first, "steps": 8}
        )

    def coding(self) -> Coding:
        fields = {**self.given(5), **self.rng.choice(({}, {"class": "7"})), "clean": "off"}
        pixels = [decode(file) for file in fields["image"]]
        decoding = self.shown("decodings", {})
        kinds = ["codes"]
        if self.drawn(0.5):
            fields |= {"output_format": "file", "images_a_code": self.rng.randrange(1, 4)}
        if self.drawn(0.5):
            some = sorted(self.rng.sample(range(len(pixels)), self.rng.randrange(len(pixels)) + 1))
            decoding.fields["images"] = (
                some if self.more.random() < 0.5 else ",".join(map(str, some))
            )
            kinds.append("some images")
        if self.more.random() < 0.3:
            decoding.fields["unchecked"] = True
            kinds.append("unchecked")
        if len(pixels) == 1 or "output_format" in fields:
            kinds.append("body")
        return Coding((*kinds, *decoding.kinds), Call("codes", (), fields), pixels, decoding)

    def websocket(self) -> Jobs:
        jobs = []
        cancelled = []
        for name in range(self.rng.randrange(1, 4)):
            kind = self.rng.choice(("generate", "complete"))
            fields = {
                "type": kind,
                "id": name,
                **(self.painting() if kind == "generate" else self.completion()),
            }
            if self.drawn(0.3):
                fields = many(fields, 30)
                cancelled.append(name)
            elif kind == "generate" and self.watched < 4:  # as many as a client may watch at once
                self.watched += 1
                fields["state"] = [1, 0]
            jobs.append(fields)
        kinds = ("websocket", "cancelled") if cancelled else ("websocket",)
        return Jobs(kinds, jobs, cancelled, self.rng.randrange(1, 10))

    def leaver(self) -> Call:
        call = self.generation() if self.drawn(0.5) else self.edit()
        leaves = self.rng.choice([*CLOSES]), self.rng.randrange(20)
        return replace(call, kinds=("left",), fields=many(call.fields, 20), leaves=leaves)

    def refusal(self) -> Call:
        route, fields, error = self.rng.choice(REFUSED)
        return Call(route, ("refused",), fields, refused=error)

    def shown(self, route: str, fields: Fields) -> Call:
        """A request that is answered with images, in any form."""
        (form,) = self.rng.choices([*FORMS], [2, 1, 1, 1, 1, 1, 3])
        more, accept = FORMS[form]
        kinds = [kind for kind in ("guidance", "particles") if fields.get(kind, 1) > 1]
        kinds += ["written"] if is_written(fields) else []
        kinds += ["listed"] if isinstance(fields.get("class"), list) else []
        if form == "sheet":
            accept = self.more.choice(("image/png", "image/webp"))
        elif form == "film":
            accept = self.more.choice(("image/gif", "image/webp"))
        elif form == "films":
            more = {**more, "output_format": self.more.choice(("apng", "webp"))}
        if self.more.random() < 0.2:
            kinds = [*kinds, "resized"]
            more = {**more, "size_policy": "resize", "size": "20x30"}
        return Call(route, (route, form, *kinds), {**fields, **more}, accept)

    def painting(self) -> Fields:
        fields = {"model": self.rng.choice([*MODELS]), "seed": self.rng.choice((0, 7, 2**63 - 1))}
        fields |= {
            "n": self.rng.choice((1, 1, 2, 3, 7)),
            "temperature": self.rng.choice((1, 1, 0.5, 0, 2)),
        }
        fields |= self.rng.choice(
            ({}, {"class": "any"}, {"class": "shell"}, {"prompt": "a handwritten seven"})
        )
        if "class" in fields and self.drawn(0.3):
            fields["class"] = self.rng.choices(("7", "horse", "shell"), k=fields["n"])
        is_guided = self.drawn(0.4) and not fields.keys().isdisjoint(("class", "prompt"))
        fields |= {"guidance": self.rng.choice((1.5, 4))} if is_guided else {}
        if isinstance(fields.get("class"), list):
            fields["class"] = [self.more.choice(WORDS[name]) for name in fields["class"]]
            if not is_guided or (fields["n"] > 1 and self.more.random() < 0.5):
                fields["class"][0] = "none"
        elif "prompt" in fields and fields["n"] > 1 and self.more.random() < 0.7:
            fields["prompt"] = "".join(self.more.choices("7qQ", k=fields["n"]))
        return fields

    def completion(self) -> Fields:
        fields = self.painting()
        fields |= {"class": "horse"} if fields.get("class") not in (None, "shell") else {}
        fields |= {"prompt": "a handwritten seven"} if "prompt" in fields else {}
        config = MODELS[fields["model"]]
        how = self.rng.choice(("alpha", "alpha", "mask", "rows"))
        images = [self.pixels(config) for _ in range(self.rng.choice((1, 1, 2, 3)))]
        if how == "rows":
            fields["keep_rows"] = self.rng.randrange(config.height)
        elif "guidance" not in fields:
            fields["particles"] = self.rng.choice((1, 2, 5, SLOTS))
        if how == "mask":
            fields["mask"] = encode(self.known(config))
        elif how == "alpha":
            images = [np.dstack([image, self.known(config)]) for image in images]
        return {**fields, "image": [encode(image) for image in images]}

    def given(self, most: int) -> Fields:
        """The fields of requests about pictures; a JPEG of strokes is noisy."""
        model = self.rng.choice([*MODELS])
        files = []
        for _ in range(self.rng.randrange(most) + 1):
            files.append(
                encode(self.pixels(MODELS[model]), self.rng.choice(("PNG", "JPEG")), quality=50)
            )
        return {
            "model": model,
            "image": files,
            **self.rng.choice(({}, {"clean": "auto"}, {"clean": "off"})),
        }

    def pixels(self, config: ModelConfig) -> np.ndarray:
        """[H, W] or [H, W, 3] uint8: noise, one value, or strokes on black."""
        drawn = np.random.default_rng(self.rng.randrange(2**32))
        image = np.zeros(config.image_shape, np.uint8)
        match self.rng.randrange(4):
            case 0:
                image[:] = drawn.integers(0, 256, image.shape)
            case 1:
                image[:] = drawn.choice((0, 255))
            case _:
                image[2 : drawn.integers(4, config.height), 2 : drawn.integers(4, config.width)] = (
                    254
                )
        return image

    def known(self, config: ModelConfig) -> np.ndarray:
        """[H, W] uint8, 255 where a pixel is known, not everywhere: a
        beginning, an end, or among hidden ones.
        """
        known = np.zeros(config.height * config.width, np.uint8)
        at = self.rng.randrange(len(known))
        match self.rng.randrange(4):
            case 0:
                known[:at] = 255
            case 1:
                known[at + 1 :] = 255
            case 2:
                known[:] = 255
                known[at :: self.rng.randrange(1, 9)] = 0
            case 3:
                known[:] = np.random.default_rng(at).choice((0, 255), len(known))
        known[at] = 0
        return known.reshape(config.height, config.width)

    def drawn(self, share: float) -> bool:
        return self.rng.random() < share


@contextmanager
def serve_models(root: Path, **options: object) -> Iterator[Server]:
    """A server of MODELS, saved under `root`; that of strokes has a class head, and reads pictures
    without noise, the other one has defaults."""
    for name, config in MODELS.items():
        shapes.save(root / name, config, class_head=name == "strokes")
    shapes.evaluate(root / "strokes")
    (root / "pixels/generation_config.json").write_text(json.dumps(DEFAULTS))
    limits = {"slots": SLOTS, "threads": 2, "client-share": 1, **NO_DELAY, **NO_DEADLINE, **options}
    with serve_with(root / DEFAULT_MODEL, {"model": root / "pixels", **limits}) as server:
        yield server


def held(server: Server) -> dict[str, float]:
    """What the processes that speak HTTP, and the main one, hold: open
    files, threads and bytes of memory.
    """
    total = Counter[str]()
    for number in (server.process.pid, *server.api_processes()):
        process = Path(f"/proc/{number}")
        total["memory"] += int((process / "statm").read_text().split()[1]) * os.sysconf(
            "SC_PAGE_SIZE"
        )
        for name in ("fd", "task"):
            total[name] += len([*(process / name).iterdir()])
    return dict[str, float](total)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="of the first mix")
    parser.add_argument("--kill", action="store_true", help="an engine in each mix")
    parser.add_argument("--reload", action="store_true", help="all models in each mix")
    parser.add_argument("--api-processes", type=int, default=1)
    parser.add_argument("--precision", default="exact")
    options = parser.parse_args()
    served = {"api-processes": options.api_processes, "precision": options.precision}
    kinds = Counter[str]()
    requests = 0
    faulty = 0
    began = time.monotonic()
    most = dict[str, float]()
    with tempfile.TemporaryDirectory() as root, serve_models(Path(root), **served) as server:
        for seed in itertools.count(options.seed):
            if seed == options.seed + WARM:
                most = held(server)
                most["memory"] += GROWTH
            mix = Mix(seed)
            for fault in mix.faults(server, options.kill, options.reload):
                print(f"mix {seed}: {fault}", flush=True)
                faulty += 1
            kinds = kinds + mix.kinds
            requests = requests + len(mix.requests) - mix.kinds["left"]
            if requests >= options.requests:
                break
        wait_for(
            lambda: all(held(server)[name] <= more for name, more in most.items()),
            "the end of what was held",
        )
        words = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
        print(
            f"{requests} requests compared in {time.monotonic() - began:.0f} s, {faulty} faults: {words}",
            flush=True,
        )
    sys.exit(bool(faulty))


if __name__ == "__main__":
    main()
