"""Mixes of requests of every kind over HTTP, each answer compared
with that to the same request alone.

    python -m tests.support.server.mixed_requests --requests 5000 [--seed 0]
    [--kill] [--reload] [--api-processes 2]

The requests of a mix (drawn_requests.py) are spelled in many ways and sent at once, by several
clients, to a server of two models with few slots; some of the clients leave early, and one has room
for few bytes that it has not read. Invariant: an answer has the same bytes whatever else is asked
meanwhile, and whether or not an engine is killed or the models are reloaded, but for what VARIES
names. In the end every room, budget and count of the server is 0.
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
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from PIL import Image

from scanline.model.base.sampling_options import DrawnLabel
from scanline.model.formats.code_file import MEDIA_TYPE
from scanline.model.images.contact_sheet import UNPAINTED
from scanline.model.images.framing import Frame
from scanline.model.sampling.base.messages import GenerateRequest
from scanline.server.api.base.page_paths import PREVIEW
from tests.support import shapes, small_models
from tests.support.drawn_requests import Drawing
from tests.support.pictures import decode, encode, painted, text
from tests.support.server.error_answers import assert_refused
from tests.support.server.metrics_reader import wait_until_empty, wait_until_idle
from tests.support.server.shared_servers import NO_DEADLINE, NO_DELAY, serve_with
from tests.support.server.sockets import CLOSES, open_connection, post_request
from tests.support.server.sse_reader import named, read
from tests.support.server.websocket_client import LAST, connected
from tests.support.waiting import PATIENCE, wait_for

CLASSES = (*small_models.CLASSES["classes"], ("q",), ("Q",))
# by label, with that of no class; and of a prompt whose characters are classes
WORDS = (("none",), ("7", "Seven"), ("horse", "HORSE"), ("shell", "Sea  Shell"), ("q",), ("Q",))
CHARACTERS = "7qQ"
PROMPT = "a handwritten seven"
SHARED = {**small_models.WINDOW, **small_models.CLASSES, "classes": CLASSES}
STROKES = {**small_models.WAVES, **SHARED, "predicts": "categorical", "mirrored": True}
MODELS = {
    "strokes": small_models.config(height=22, width=16, **STROKES),
    "pixels": small_models.config(height=12, width=11, **small_models.COLOUR_PIXELS, **SHARED),
}
DEFAULT_MODEL = "strokes"
FRAME = Frame(16, 11.0, 8.0)
DEFAULTS = {
    "strokes": {"best_of": 2},
    "pixels": {"class": "any", "guidance": 1.5, "temperature": 0.9, "particles": 3},
}
SLOTS = 12
WATCHED = 4  # images whose state a client may watch at once
# mixes after which a server grows no more, but for so many bytes
WARM = 20
GROWTH = 32e6
CLIENTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
SMALL_BUFFER = [(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)]
VARIES = re.compile(rb'"created":[^,}]+')
NPY = "application/x-npy"
WEIGHTED = {  # by Accept: another one that prefers the same
    "*/*": "image/png;q=0.2, application/json",
    "image/png": "application/json;q=0.3, image/png;q=0.9, */*;q=0.1",
    NPY: f"image/*;q=0.1, {NPY}",
    "image/gif": "image/webp;q=0.1, image/gif",
}
FILM = {"frames": 4, "seconds": 0.5, "scale": 2}
FILES = {"frames": 3, "scale": 1}
EVENTS = {"stream": True, "partial_images": 3}
# of answers: the fields that ask for each, and Accept
FORMS = [
    ({}, "*/*"),
    ({"response_format": "url", "output_format": "webp"}, "*/*"),
    ({}, "image/png"),
    ({}, "image/webp"),
    ({}, NPY),
    (FILM, "image/gif"),
    (FILM, "image/webp"),
    ({**FILES, "output_format": "apng"}, "*/*"),
    ({**FILES, "output_format": "webp"}, "*/*"),
]
REFUSED = [
    ("generations", {"prompt": "a cat"}, (400, "prompt", "prompt_not_supported")),
    ("generations", {"model": "nobody"}, (404, "model", "model_not_found")),
    ("edits", {"image": b"no picture", "keep_rows": 3}, (400, "image", "invalid_image")),
    ("decodings", {"code": b"no code"}, (400, "code", "invalid_code")),
]
# what a few mixes have between them: routes, ways to send, what is accepted, fields
KINDS = {
    *WEIGHTED,
    *WEIGHTED.values(),
    "generations",
    "edits",
    "likelihoods",
    "classifications",
    "steps",
    "codes",
    "decodings",
    "websocket",
    "preview",
    "cancelled",
    "left",
    "refused",
    "form",
    "image/webp",
    "model",
    "n",
    "class",
    "prompt",
    "guidance",
    "best_of",
    "particles",
    "mask",
    "keep_rows",
    "repeats",
    "per_pixel",
    "by_bits",
    "clean",
    "images_a_code",
    "images",
    "unchecked",
    "stream",
    "response_format",
    "output_format",
    "frames",
    "seconds",
    "size",
    "state",
}
Fields = dict[str, Any]  # files are bytes


@dataclass(frozen=True)
class Call:
    route: str
    fields: Fields
    accept: str = "*/*"
    sent_as: str = "JSON"  # or as a form, or a body that is a file of codes
    # the status, parameter and code of the error that must come
    refused: tuple[int, str, str] | None = None
    leaves: tuple[str, int] | None = None  # how the client leaves, after so many milliseconds

    @property
    def kinds(self):
        kinds = {self.route, self.accept, self.sent_as, *self.fields}
        if self.refused:
            kinds.add("refused")
        return {"left"} if self.leaves else kinds

    @property
    def url(self):
        return f"/v1/images/{self.route}"

    def answer(self, server, client, alone):
        if self.leaves:
            close, milliseconds = self.leaves
            with open_connection(server) as connection:
                request = post_request(self.url, as_json(self.fields), accept=self.accept)
                connection.sendall(request)
                time.sleep(milliseconds / 1000)
                CLOSES[close](connection)
            return {}
        response = self.response(client)
        if "stream" in self.fields:
            return answer_of_events([*response.iter_lines()])
        heads = {name: response.headers.get(name) for name in ("content-type", "x-scanline-seed")}
        return {**heads, "body": VARIES.sub(b"", response.content)}

    def response(self, client):
        headers = {"accept": self.accept}
        if self.sent_as == "form":
            body = as_form(self.fields)
        elif self.sent_as == "body":
            body = {"content": self.fields["code"][0]}
            headers["content-type"] = MEDIA_TYPE
        else:
            body = {"json": as_json(self.fields)}
        response = client.post(self.url, **body, headers=headers)
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

    codes: Call
    pixels: list[np.ndarray]
    decoding: Call

    @property
    def kinds(self):
        return self.codes.kinds | self.decoding.kinds

    def answer(self, server, client, alone):
        encoded = self.codes.response(client)
        if encoded.headers["content-type"] == MEDIA_TYPE:
            codes = [encoded.content]
        else:
            codes = [b64decode(each["code"]) for each in encoded.json()["data"]]
        sent_as = "body" if len(codes) == 1 else "JSON"
        decoded = Call("decodings", {"code": codes}, NPY, sent_as).response(client)
        pixels = np.load(io.BytesIO(decoded.content))
        assert np.array_equal(pixels, self.pixels), "other pixels than those encoded"
        decoding = replace(self.decoding, fields={**self.decoding.fields, "code": codes})
        answer = decoding.answer(server, client, alone)
        return {**answer, "codes": VARIES.sub(b"", encoded.content)}


@dataclass(frozen=True)
class Preview:
    """The preview of a link."""

    fields: Fields

    kinds = frozenset({"preview"})

    def answer(self, server, client, alone):
        # A temperature that changes nothing: else the answer is the one that was kept.
        same = {"temperature": 1} if alone else {}
        response = client.get(PREVIEW, params=self.fields | same)
        assert response.status_code == 200, f"{response.status_code} {response.text}"
        return {"body": response.content}


@dataclass(frozen=True)
class Jobs:
    """Jobs of one websocket, of which some are cancelled after so many messages."""

    jobs: list[Fields]
    cancelled: list[int]  # their ids
    after: int

    @property
    def kinds(self):
        return {"websocket", *(["cancelled"] if self.cancelled else []), *self.jobs[0]}

    def answer(self, server, client, alone):
        """Alone, they are painted one after the other, without those that are cancelled."""
        kept = [job for job in self.jobs if job["id"] not in self.cancelled]
        with connected(server.url) as socket:
            if alone:
                for job in kept:
                    socket.paint(**as_json(job))
            else:
                socket.send_together(*map(as_json, self.jobs))
                received = 0
                while sum(job.last in LAST for job in socket.jobs.values()) < len(self.jobs):
                    socket.receive()
                    received += 1
                    for name in self.cancelled if received == self.after else ():
                        socket.send(type="cancel", id=name)
        answer = {}
        for name in (job["id"] for job in kept):
            job = socket.jobs[name]
            assert job.last == "done", job.messages[-1]
            started, *messages = job.messages
            answer[f"job {name}"] = {**started, "job": 0}
            answer[f"pixels of {name}"] = job.images().tobytes()
            for message in messages:
                if message["type"] == "image":
                    answer[f"image {message['index']} of {name}"] = message
                elif message["type"] == "state":
                    answer[f"partial state {message['position']} of {name}"] = message
        return answer


def as_json(fields):
    return json.loads(json.dumps(fields, default=text))


def as_form(fields):
    values = dict(fields)
    files = [("image", image) for image in values.pop("image")]
    if "mask" in values:
        files.append(("mask", values.pop("mask")))
    data = {name: json.dumps(value).strip('"') for name, value in values.items()}
    return {"files": files, "data": data}


def answer_of_events(lines):
    """Partial images must be beginnings of the images, unless they are provisional."""
    events = [{**event, "created_at": 0} for event in read(iter(lines))]
    assert not [event for event in events if "error" in event], events
    answer = {f"image {event['index']}": event for event in named(events, "completed")}
    for event in named(events, "partial_image"):
        if "provisional" not in event:
            index = event["index"]
            seen, final = painted({"data": [event, answer[f"image {index}"]]})
            is_beginning = (seen[seen != final] == UNPAINTED).all()
            assert is_beginning, f"a partial image is no beginning: {event}"
            answer[f"partial image {event['partial_image_index']} of {index}"] = event
    return answer


def difference(found, alone):
    """What failed, or the first difference, in words; empty where there is none."""
    if isinstance(found, str):
        return found
    if isinstance(alone, str):
        return f"alone, {alone}"
    for name in sorted(found.keys() | alone.keys()):
        one = found.get(name)
        other = alone.get(name)
        may_differ = name.startswith("partial") and None in (one, other)
        if one != other and not may_differ:
            return f"{name}: {one!r:.500} instead of {other!r:.500}"
    return ""


class Mix:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.watched = 0
        self.drawings = {
            name: Drawing(self.rng, config, SLOTS, True) for name, config in MODELS.items()
        }
        draws = {
            self.call: 18,
            self.websocket: 2,
            self.preview: 1,
            self.leaver: 2,
            self.refusal: 1,
        }
        count = self.rng.randrange(20, 41)
        drawn = self.rng.choices([*draws], [*draws.values()], k=count)
        self.requests = [draw() for draw in drawn]
        self.kinds = Counter(kind for request in self.requests for kind in request.kinds)

    def faults(self, server, kills=False, reloads=False):
        """Send all requests at once, then each alone; return what is wrong."""
        count = len(self.requests)
        engines = server.engines()
        victim = self.rng.choice(engines) if kills else 0
        ending = {*engines} if reloads else {victim}
        begin = threading.Barrier(count)
        answered = itertools.count(1)
        with ExitStack() as stack, ThreadPoolExecutor(count) as pool:
            clients = []
            for address in CLIENTS:
                options = SMALL_BUFFER if address == CLIENTS[-1] else []
                transport = httpx.HTTPTransport(
                    verify=False, local_address=address, socket_options=options
                )
                clients.append(stack.enter_context(server.client(transport=transport)))

            def attempt(number, alone):
                client = clients[number % len(clients)]
                try:
                    return self.requests[number].answer(server, client, alone)
                except Exception as error:
                    return f"{type(error).__name__}: {error!s:.1000}"

            def meet(number):
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
                    kinds = ", ".join(request.kinds)
                    faults.append(f"request {number} ({kinds}): {fault}; {request!r:.500}")
        with server.client() as client:
            wait_until_empty(client)
        return faults

    def call(self):
        """A request in any words and form; as a form of HTML where it has pictures."""
        model = self.rng.choice([*MODELS])
        request = self.drawings[model].request()
        if isinstance(request, GenerateRequest):
            call = self.painting(model, request)
        elif request.coded:
            return self.coding(model, request)
        else:
            call = self.reading(model, request)
        fields = {**call.fields}
        sent_as = "form" if "image" in fields and self.chance(0.4) else call.sent_as
        if model == DEFAULT_MODEL and self.chance(0.3):
            del fields["model"]
        accept = call.accept
        if accept in WEIGHTED and self.chance(0.3):
            accept = WEIGHTED[accept]
        return replace(call, fields=fields, accept=accept, sent_as=sent_as)

    def painting(self, model, request):
        fields = self.fields(model, request)
        if "mask" in fields and "particles" in fields and self.chance(0.3):
            return self.known_pixels(model, fields)
        route = "edits" if request.known else "generations"
        return self.shown(route, fields, request.stream)

    def known_pixels(self, model, fields):
        mask = decode(fields["mask"]).copy()
        mask[0, 0], mask[-1, -1] = 255, 0  # with no known pixel, or no hidden one, it is refused
        asked = {name: fields[name] for name in ("model", "image", "seed", "particles")}
        if "class" in fields:
            asked["class"] = fields["class"]
        asked |= {"mask": encode(mask), "repeats": 2}
        return Call("likelihoods", asked)

    def reading(self, model, request):
        fields = self.given(model, request)
        if request.classified:
            fields["by_bits"] = self.chance(0.5)
            if model == "strokes" and fields.get("clean") != "off":
                fields["image"] = [self.photo(file) for file in fields["image"]]
            return Call("classifications", fields)
        if label := request.label_of(0):
            fields["class"] = self.word(label)
        if request.inspected is None:
            fields["per_pixel"] = self.chance(0.5)
            return Call("likelihoods", fields)
        config = MODELS[model]
        steps = request.inspected
        fields |= {"layer": steps.layer, "head": steps.head}
        fields["first"] = (steps.first - config.first) // config.step_bytes
        fields["steps"] = min((steps.stop - steps.first) // config.step_bytes, 8)
        return Call("steps", fields)

    def coding(self, model, request):
        fields = {**self.given(model, request), "clean": "off"}
        if label := request.label_of(0):
            fields["class"] = self.word(label)
        pixels = [decode(file) for file in fields["image"]]
        asked = {}
        if self.chance(0.5):
            fields |= {"output_format": "file", "images_a_code": self.rng.randrange(1, 4)}
        if self.chance(0.5):
            size = self.rng.randrange(len(pixels)) + 1
            some = sorted(self.rng.sample(range(len(pixels)), size))
            asked["images"] = self.rng.choice([some, ",".join(map(str, some))])
        if self.chance(0.3):
            asked["unchecked"] = True
        decoding = self.shown("decodings", asked, self.chance(0.3))
        return Coding(Call("codes", fields), pixels, decoding)

    def websocket(self):
        jobs = []
        cancelled = []
        for name in range(self.rng.randrange(1, 4)):
            model, request = self.painted()
            is_cancelled = self.chance(0.3)
            if is_cancelled:
                request = many(request, 30)
                cancelled.append(name)
            fields = self.fields(model, request)
            fields |= {"type": "complete" if request.known else "generate", "id": name}
            if not request.known and not is_cancelled and self.watched < WATCHED:
                self.watched += 1
                fields["state"] = request.snapshot or (1, 0)
            jobs.append(fields)
        return Jobs(jobs, cancelled, self.rng.randrange(1, 10))

    def preview(self):
        label = self.rng.randrange(len(WORDS))
        guidance = self.rng.choice([1, 2]) if label else 1
        fields = {"model": "strokes", "seed": self.rng.randrange(2**63), "class": self.word(label)}
        return Preview({**fields, "n": self.rng.randrange(1, 9), "guidance": guidance})

    def leaver(self):
        model, request = self.painted()
        call = self.painting(model, many(request, 20))
        leaves = self.rng.choice([*CLOSES]), self.rng.randrange(20)
        return replace(call, leaves=leaves)

    def refusal(self):
        route, fields, error = self.rng.choice(REFUSED)
        return Call(route, fields, refused=error)

    def shown(self, route, fields, is_streamed):
        """A request that is answered with images: in events, or in any other form."""
        more, accept = (EVENTS, "*/*") if is_streamed else self.rng.choice(FORMS)
        if self.chance(0.2):
            more = {**more, "size_policy": "resize", "size": "20x30"}
        return Call(route, {**fields, **more}, accept)

    def painted(self):
        """A model, and images to paint or to complete."""
        model = self.rng.choice([*MODELS])
        drawing = self.drawings[model]
        return model, self.rng.choice([drawing.painting, drawing.completion])()

    def fields(self, model, request):
        """The fields of a request to paint; what it leaves out is the model's default."""
        fields = {"model": model, "seed": request.seed, "temperature": request.temperature}
        fields["n"] = request.n // max(len(request.known), 1)
        label = request.label
        if isinstance(label, tuple):
            if len(label) > 1 and self.chance(0.4):
                fields["prompt"] = "".join(CHARACTERS[one % 3] for one in label)
            else:
                fields["class"] = [self.word(one) for one in label]
                if self.chance(0.5):
                    del fields["n"]
        elif isinstance(label, DrawnLabel):
            fields["class"] = "any"
        elif label == 1 and self.chance(0.5):
            fields["prompt"] = PROMPT
        elif label:
            fields["class"] = self.word(label)
        if request.guidance != 1:
            fields["guidance"] = request.guidance
        if request.known:
            return {**fields, **self.known(MODELS[model], request)}
        if model == DEFAULT_MODEL and label and request.best_of != 2:  # its default
            fields["best_of"] = request.best_of
        return fields

    def known(self, config, request):
        """The fields of pictures and their known pixels: rows, a mask, or transparency."""
        images = [np.frombuffer(image, np.uint8) for image in request.known]
        images = [image.reshape(config.image_shape) for image in images]
        masks = request.known_pixels(config)
        masks = masks[:: request.n // len(images)] * np.uint8(255)
        mask = masks[0]
        fields = {} if request.guidance != 1 else {"particles": min(request.particles, SLOTS)}
        rows = int(mask.all(axis=1).argmin())
        if not (masks != mask).any() and self.chance(0.6):
            if rows * config.width * 255 == mask.sum():
                fields = {"keep_rows": rows}
            else:
                fields["mask"] = encode(mask)
        else:
            images = [np.dstack(pair) for pair in zip(images, masks, strict=True)]
        return {**fields, "image": [encode(image) for image in images]}

    def given(self, model, request):
        """The fields of requests about pictures; a JPEG of strokes is noisy."""
        shape = MODELS[model].image_shape
        files = []
        for image in request.images:
            pixels = np.frombuffer(image, np.uint8).reshape(shape)
            files.append(encode(pixels, self.rng.choice(["PNG", "JPEG"]), quality=50))
        clean = self.rng.choice([{}, {"clean": "auto"}, {"clean": "off"}])
        return {"model": model, "image": files, **clean}

    def photo(self, file):
        """A picture as it is, or dark on light and in another size."""
        if self.chance(0.7):
            return file
        size = (self.rng.randrange(20, 90), self.rng.randrange(20, 90))
        picture = Image.fromarray(255 - decode(file))
        return encode(np.asarray(picture.resize(size)))

    def word(self, label):
        return self.rng.choice(WORDS[label])

    def chance(self, share):
        return self.rng.random() < share


def many(request, n):
    """The same request for `n` images, or `n` completions of each picture."""
    n *= max(len(request.known), 1)
    if isinstance(request.label, tuple):
        request = replace(request, label=request.label[:1] * n)
    return replace(request, n=n)


@contextmanager
def serve_models(root, **options):
    """A server of MODELS, saved under `root`; that of strokes has a class head, and reads photos,
    and pictures without noise."""
    for name, config in MODELS.items():
        shapes.save(root / name, config, class_head=name == "strokes")
    shapes.evaluate(root / "strokes", FRAME)
    for name, defaults in DEFAULTS.items():
        (root / name / "generation_config.json").write_text(json.dumps(defaults))
    limits = {"slots": SLOTS, "threads": 2, "client-share": 1, **NO_DELAY, **NO_DEADLINE, **options}
    with serve_with(root / DEFAULT_MODEL, {"model": root / "pixels", **limits}) as server:
        yield server


def held(server):
    """What the processes that speak HTTP, and the main one, hold: open
    files, threads and bytes of memory.
    """
    total = dict.fromkeys(("memory", "fd", "task"), 0.0)
    for number in (server.process.pid, *server.api_processes()):
        process = Path(f"/proc/{number}")
        pages = int((process / "statm").read_text().split()[1])
        total["memory"] += pages * os.sysconf("SC_PAGE_SIZE")
        for name in ("fd", "task"):
            total[name] += len([*(process / name).iterdir()])
    return total


def main():
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
    kinds = Counter()
    requests = 0
    faulty = 0
    began = time.monotonic()
    most = {}
    with tempfile.TemporaryDirectory() as root, serve_models(Path(root), **served) as server:
        for seed in itertools.count(options.seed):
            if seed == options.seed + WARM:
                most = held(server)
                most["memory"] += GROWTH
            mix = Mix(seed)
            for fault in mix.faults(server, options.kill, options.reload):
                print(f"mix {seed}: {fault}", flush=True)
                faulty += 1
            kinds += mix.kinds
            requests += len(mix.requests) - mix.kinds["left"]
            if requests >= options.requests:
                break
        wait_for(
            lambda: all(held(server)[name] <= more for name, more in most.items()),
            "the end of what was held",
        )
    words = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    seconds = time.monotonic() - began
    print(f"{requests} requests compared in {seconds:.0f} s, {faulty} faults: {words}", flush=True)
    sys.exit(bool(faulty))


if __name__ == "__main__":
    main()
