"""Random mixes of requests of every kind in one engine; each answer must equal
the one that its request gets alone.

    python -m tests.support.engine.mixed_requests --requests 20000 [--seed 0] [--backend eager]

A mix draws a model, slots, spare slots, threads, an instruction set and a prefix tree that has to
forget; then paintings, completions of several pictures with masks of their own, particles,
guidance, codes, scores, tolerances, inspections, readings by a class head and cancels of several
clients, which arrive while others are in progress; of some requests a part, as a shard or as what
is left of one that is repeated, and of some images far away. In some mixes the device works on
its own, as a GPU does, and in some ticks of some it fails. The reference runs one request at a
time, without the prefix tree, on another instruction set. Nothing depends on time: a seed is a
mix. In the end the engine holds nothing.
"""

import argparse
import itertools
import random
import sys
import traceback
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import torch

from scanline.kernels import cpu as cpu_kernels
from scanline.model.formats.code_file import Codes
from scanline.model.sampling import prefix_tree
from scanline.model.sampling.base import messages
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.base.messages import (
    Failed,
    Finished,
    GenerateRequest,
    Pixels,
    Scored,
    ScoreRequest,
)
from scanline.model.sampling.encoding import Encoder
from scanline.model.sampling.engine import Engine
from tests.support import small_models
from tests.support.engine.queued_generator import QueuedGenerator

MODELS = {
    "strokes": {
        "height": 9,
        "width": 6,
        "predicts": "categorical",
        **small_models.WINDOW,
        **small_models.WAVES,
    },
    "mixed": {
        "height": 8,
        "width": 5,
        "predicts": "categorical",
        **small_models.WINDOW,
        **small_models.MIXED,
    },
    "pixels": {
        "height": 6,
        "width": 5,
        **small_models.WINDOW,
        **small_models.COLOUR_PIXELS,
        **small_models.MIXED,
    },
    "grey": {"height": 11, "width": 5, "layers": 1},
    "no start": {"height": 8, "width": 5, **small_models.NO_START},
    "post": {
        "height": 6,
        "width": 6,
        "norm": "post",
        "predicts": "categorical",
        **small_models.WINDOW,
    },
}
BREAKABLE = ("start_prefill", "run_prefill", "place_many", "start", "resample", "choose", "fetch")
REFERENCE_SLOTS = 64
MAX_TICKS = 20_000
Answer = tuple[Any, ...]


@contextmanager
def instruction_set(isa: str) -> Iterator[None]:
    with mock.patch.object(cpu_kernels, "instruction_sets", return_value=[isa]):
        yield


@contextmanager
def breaking(generator: Generator, name: str, calls: int) -> Iterator[None]:
    """After so many calls, each one under that name fails."""
    done = itertools.count()

    def broken(*arguments: Any) -> Any:
        if next(done) >= calls:
            raise RuntimeError("It broke.")
        return getattr(type(generator), name)(generator, *arguments)

    setattr(generator, name, broken)
    yield
    delattr(generator, name)


class Answers:
    """What one request got: an answer for each image, and what was streamed of it."""

    def __init__(self) -> None:
        self.images: dict[int, Answer] = {}
        self.streams: defaultdict[int, bytes] = defaultdict(bytes)
        self.faults: list[str] = []

    def add(self, event: messages.Event) -> None:
        match event:
            case Finished():
                weighed = event.evidence_bits, event.effective_particles
                self._add(event.index, (event.image, event.bits_per_dim, *weighed, event.label))
            case Scored():
                steps = None if event.steps is None else tuple(sorted(event.steps.arrays.items()))
                self._add(event.index, (event.bits, event.intervals, steps, event.logits))
            case Pixels():
                for index, first, data in event.painted:
                    # An image that lost its slots starts anew, with the same bytes.
                    before = self.streams[index][:first]
                    self.streams[index] = before + bytes(first - len(before)) + data
            case Failed():
                self.faults.append(f"failed: {event.message} {event.code}")

    def _add(self, index: int, answer: Answer) -> None:
        if index in self.images:
            self.faults.append(f"image {index} ended twice")
        self.images[index] = answer


class Mix:
    """One mix, drawn by its seed; `run` returns its faults."""

    def __init__(self, seed: int, backend: str = "cpu") -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.backend = backend
        rng = self.rng
        self.name = rng.choice([*MODELS])
        # what was added later, so that the mixes stay what they were
        self.more = random.Random(f"more of {seed}")
        classes = small_models.CLASSES if self.more.random() < 0.85 else {}
        self.config = small_models.config(**MODELS[self.name], **classes)
        self.model = small_models.model(self.config, rng.randrange(3))
        self.model.class_head = small_models.class_head(self.config) if classes else None
        if self.config.predicts == "categorical" and rng.random() < 0.6:
            # one byte nearly certain: images begin alike, and the prefix tree has work
            with torch.no_grad():
                self.model.head.bias[0] += 6.0
        isas = cpu_kernels.instruction_sets() if backend == "cpu" else ["portable"]
        self.isa = rng.choice(isas)
        self.other = rng.choice(isas)
        self.slots = rng.choice([1, 2, 3, 8, 17, 32, 64])
        self.spare = rng.choice([0, 0, 1, 4])
        self.threads = rng.choice([1, 2, 2, 3])
        self.precision = rng.choice(["exact", "exact", "int8"]) if backend == "cpu" else "exact"
        self.pictures = [self._picture().tobytes() for _ in range(6)]
        self.kinds: Counter[str] = Counter()
        self.mishaps = random.Random(f"mishaps of {seed}")
        self.device = self.mishaps.choice([Generator, Generator, QueuedGenerator])
        self.failing_ticks = self.mishaps.choice([0.0, 0.0, 0.05])

    def __str__(self) -> str:
        return (
            f"mix {self.seed} ({self.name}, {self.precision}, {self.slots}+{self.spare} slots, "
            f"{self.threads} threads, {self.isa} / {self.other}, {self.device.__name__}, {self.failing_ticks} fail)"
        )

    def run(self) -> list[str]:
        """Run the mix and compare; return one line for each fault."""
        with instruction_set(self.other):
            self.reference = Engine(
                Generator(self.model, REFERENCE_SLOTS, 1, self.precision, self.backend)
            )
        self.reference.admission.tree = None
        # by request: pictures and labels of its codes
        self.decoded: dict[int, list[tuple[bytes, int]]] = {}
        requests = [
            self._varied(self._request(number)) for number in range(1, self.rng.randrange(6, 41))
        ]
        with (
            instruction_set(self.isa),
            mock.patch.object(prefix_tree, "KEPT", self.rng.choice([1, 3, 256])),
        ):
            answers, ended, faults = self._together(requests)
        for request in requests:
            if request.id in ended:
                self.kinds["cancelled or failed"] += 1
            else:
                self.kinds[kind_of(request)] += 1
                named = f"{kind_of(request)} {request.id}"
                for fault in self._differences(request, answers[request.id]):
                    faults.append(f"{named}: {fault}; {request!r:.300}")
        self.reference.generator.close()
        return faults

    def _together(
        self, requests: list[messages.Request]
    ) -> tuple[defaultdict[int, Answers], set[int], list[str]]:
        """Return what the requests get in one engine, those that were cancelled or failed in a tick
        that broke, and what is wrong with the engine."""
        rng = self.rng
        answers = defaultdict[int, Answers](Answers)
        faults = list[str]()
        engine = Engine(
            self.device(
                self.model, self.slots, self.threads, self.precision, self.backend, self.spare
            )
        )
        if engine.admission.tree is not None:
            engine.admission.tree.most_bytes = rng.choice([0, 20_000, 60_000, 64 << 20])
        pending = [*requests]
        accepted = list[int]()
        over = set[int]()

        def cancel(request: int) -> None:
            engine.accept(messages.Cancel(request))
            over.add(request)

        try:
            for _ in range(MAX_TICKS):
                while pending and (engine.idle or rng.random() < 0.5):
                    engine.accept(request := pending.pop(0))
                    accepted.append(request.id)
                    if rng.random() < 0.08:
                        cancel(request.id)
                if accepted and rng.random() < 0.03:
                    cancel(rng.choice(accepted))
                breaks = self.mishaps.random() < self.failing_ticks
                mishap = self.mishaps.choice(BREAKABLE), self.mishaps.randrange(3)
                with breaking(engine.generator, *mishap) if breaks else nullcontext():
                    events = engine.tick()
                for event in events:
                    if (
                        isinstance(event, Finished | Scored | Pixels | Failed)
                        and event.request in over
                    ):
                        faults.append(
                            f"request {event.request} was over and got {type(event).__name__}"
                        )
                    if breaks and isinstance(event, Failed):
                        over.add(event.request)
                    else:
                        answers[event.request].add(event)  # type: ignore[union-attr]
                scheduler = engine.scheduler
                taken = [slot for one in scheduler.assigned.values() for slot in one.slots]
                if sorted([*scheduler.free, *scheduler.spare, *taken]) != [
                    *range(self.slots + self.spare)
                ]:
                    faults.append("a slot is lost, or has two images")
                if engine.idle and not pending:
                    break
            else:
                faults.append("the engine never gets idle")
            faults += _left_over(engine)
        except Exception:
            faults.append(traceback.format_exc())
        engine.generator.close()
        return answers, over, faults

    def _alone(self, request: messages.Request) -> dict[int, Answer]:
        answers = Answers()
        self.reference.accept(request)
        while not self.reference.idle:
            for event in self.reference.tick():
                answers.add(event)
        return answers.images

    def _differences(self, request: messages.Request, answers: Answers) -> Iterator[str]:
        """Yield what differs between a request's answers and those that it gets alone."""
        yield from answers.faults
        is_streamed = isinstance(request, GenerateRequest) and request.stream
        quiet = (
            replace(request, stream=False, snapshot=None)
            if isinstance(request, GenerateRequest)
            else request
        )
        expected = self._alone(quiet)
        if expected.keys() != answers.images.keys():
            yield f"images {sorted(answers.images)} instead of {sorted(expected)}"
            return
        for index, answer in expected.items():
            found = answers.images[index]
            pairs = enumerate(zip(answer, found, strict=True))
            # NaN is NaN
            wrong = [place for place, (a, b) in pairs if a != b and (a == a or b == b)]
            if wrong:
                yield f"image {index} differs in {wrong}"
            if (
                request.id in self.decoded
                and (found[0], found[-1]) != self.decoded[request.id][index]
            ):
                yield f"image {index} is not the picture that was encoded, with its label"
            if is_streamed and answers.streams[index] != found[0]:
                yield f"image {index} was streamed otherwise"

    # What is drawn

    def _request(self, number: int) -> messages.Request:
        rng = self.rng
        config = self.config
        client = rng.choice(["a", "b", "c", ""])
        (kind,) = rng.choices(["paint", "complete", "code", "score"], [4, 5, 2, 3])
        if kind == "score":
            return self._score(number, client)
        if kind == "code":
            return self._shard(self._coded(number, client))
        labels = len(config.classes)
        how: dict[str, Any] = {"label": rng.randrange(labels + 1), "client": client}
        how["temperature"] = rng.choice([0.0, 0.5, 1.0, 1.0, 1.0, 2.0])
        if rng.random() < 0.3 and self.slots > 1 and labels:
            how |= {"guidance": rng.choice([1.5, 2.0, 10.0]), "label": rng.randrange(1, labels + 1)}
        if rng.random() < 0.3:
            how |= {"stream": True, "provisional": rng.random() < 0.5}
        if rng.random() < 0.1:
            how["snapshot"] = rng.randrange(config.layers), rng.randrange(config.heads)
        n = rng.choice([1, 1, 2, 3, 7])
        seed = rng.choice([0, 1, 7, 2**63 - 1, rng.randrange(2**63)])
        if kind == "paint":
            if rng.random() < 0.3:
                how["drawn_classes"] = labels
            elif rng.random() < 0.3:
                how["labels"] = tuple(rng.randrange(labels + 1) for _ in range(n))
            return self._shard(GenerateRequest(number, n, seed, **how))
        sources = rng.choice([1, 1, 2, 3, 4])
        how["masks"] = tuple(self._mask() for _ in range(sources))
        how["known"] = tuple(rng.choice(self.pictures) for _ in range(sources))
        how["particles"] = 1 if "guidance" in how else min(self.slots, rng.choice([1, 2, 5, 16]))
        return self._shard(GenerateRequest(number, sources * n, seed, **how))

    def _score(self, number: int, client: str) -> ScoreRequest:
        rng = self.rng
        config = self.config
        images = tuple(rng.choice(self.pictures) for _ in range(rng.randrange(1, 5)))
        labels = (
            tuple(rng.randrange(len(config.classes) + 1) for _ in images)
            if rng.random() < 0.6
            else ()
        )
        weights = [4, 3, 3, 1, 3 if self.model.class_head else 0]
        kind = rng.choices(["plain", "tolerant", "coded", "inspected", "classified"], weights)[0]
        if kind == "tolerant" and config.predicts == "categorical":
            return ScoreRequest(
                number, images, labels, tuple(rng.choice([0, 1, 20]) for _ in images), client=client
            )
        if kind == "inspected":
            first, stop = sorted(
                rng.sample(range(config.first, config.bytes + 1, config.step_bytes), 2)
            )
            inspected = messages.StepRange(
                rng.randrange(config.layers), rng.randrange(config.heads), first, stop
            )
            return ScoreRequest(number, images[:1], labels[:1], inspected=inspected, client=client)
        how = {"coded": kind == "coded", "classified": kind == "classified"}
        return ScoreRequest(number, images, labels, **how, client=client)

    def _coded(self, number: int, client: str) -> GenerateRequest:
        """Return a request to decode codes of pictures, or random
        bytes, which decode to something.
        """
        rng = self.rng
        labels = 1 + len(self.config.classes)
        if rng.random() < 0.4:
            length = rng.choice([1, 2, 5])
            count = rng.randrange(1, 5)
            noise = tuple(rng.randbytes(rng.randrange(40)) for _ in range(0, count, length))
            codes = Codes(noise, length, rng.random() < 0.5)
            return GenerateRequest(number, count, 0, codes=codes, client=client)
        images = tuple(rng.choice(self.pictures) for _ in range(rng.randrange(1, 6)))
        classes = tuple(rng.randrange(labels) for _ in images)
        length = rng.choice([1, 2, 3])
        plain = self._alone(ScoreRequest(0, images, coded=True))
        labelled = self._alone(ScoreRequest(0, images, classes, coded=True))
        # Of two files, the second without labels, or of one.
        cut = (
            length * self.more.randrange(1 + len(images) // length)
            if self.more.random() < 0.5
            else len(images)
        )
        codes: list[bytes] = []
        with_labels: list[bool] = []
        decoded = []
        for first, stop, kinds in ((0, cut, labels), (cut, len(images), 1)):
            encoder = Encoder(kinds, length)
            for i in range(first, stop):
                encoder.add(plain[i][1], classes[i], labelled[i][1])
            file = encoder.finish()
            codes += file.codes
            with_labels += [file.is_labelled(0)] * len(file.codes)
            for i in range(first, stop):
                helps = file.is_labelled(0) and _bits(labelled[i][1]) < _bits(plain[i][1])
                decoded.append((images[i], helps * classes[i]))
        self.decoded[number] = decoded
        joined = Codes(tuple(codes), length, tuple(with_labels))
        return GenerateRequest(number, len(images), 0, codes=joined, client=client)

    def _varied(self, request: messages.Request) -> messages.Request:
        """Return the request, or one that differs from it in what was added later."""
        more = self.more
        if isinstance(request, ScoreRequest):
            if request.classified and self.config.predicts == "categorical" and more.random() < 0.5:
                request = replace(
                    request, tolerances=tuple(more.choice([0, 1, 20]) for _ in request.images)
                )
        elif request.codes is not None:
            codes = request.codes
            if request.id not in self.decoded and self.config.classes and more.random() < 0.5:
                labelled = tuple(more.random() < 0.5 for _ in codes.codes)
                request = replace(request, codes=replace(codes, labelled=labelled))
            if more.random() < 0.3:
                request = replace(request, stream=True, provisional=more.random() < 0.5)
        else:
            if more.random() < 0.2:
                request = replace(request, temperature=more.uniform(0.1, 2.0))
            if request.is_guided and more.random() < 0.3:
                request = replace(request, guidance=more.uniform(1.01, 10.0))
            if request.is_guided and request.labels and more.random() < 0.5:
                request = replace(
                    request, labels=tuple(label * more.randrange(2) for label in request.labels)
                )
            if not request.labels and request.only is None and more.random() < 0.15:
                n = len(request.known or "?") * more.choice([40, 40, 2**31, 2**53, 2**60])
                first = more.choice([0, more.randrange(n), n - 3])
                only = None if n < 200 else tuple(range(first, min(first + 3, n)))
                request = replace(request, n=n, only=only)
        if request.only is not None or len(request.indices) == 1 or more.random() > 0.15:
            return request
        some = tuple(sorted(more.sample(request.indices, more.randrange(1, len(request.indices)))))
        return request.shard(some) if more.random() < 0.5 else replace(request, only=some)

    def _shard(self, request: GenerateRequest) -> GenerateRequest:
        """Return the request, or now and then some of its images."""
        if self.rng.random() > 0.2 or request.n == 1:
            return request
        return request.shard(
            tuple(sorted(self.rng.sample(range(request.n), self.rng.randrange(1, request.n))))
        )

    def _picture(self) -> np.ndarray:
        rng = np.random.default_rng(self.rng.randrange(1 << 30))
        size = self.config.bytes
        kinds = (
            lambda: np.zeros(size),
            lambda: np.full(size, 255),
            lambda: rng.integers(0, 2, size) * 255,
        )
        return self.rng.choice([*kinds, lambda: rng.integers(0, 256, size)])().astype(np.uint8)

    def _mask(self) -> bytes:
        rng = self.rng
        pixels = np.zeros(self.config.height * self.config.width, np.bool_)
        match rng.randrange(5):
            case 0:
                pixels[: rng.randrange(self.config.height) * self.config.width] = True
            case 1:
                pixels[: rng.randrange(len(pixels))] = True
            case 2:
                pixels[:] = np.random.default_rng(rng.randrange(1 << 30)).random(len(pixels)) < 0.5
            case 3:
                pixels[:] = True
                pixels[rng.randrange(len(pixels)) :: rng.randrange(2, 9)] = False
            case 4:
                pixels[rng.randrange(len(pixels)) :] = True
        pixels[-1] &= not pixels.all()
        return pixels.repeat(self.config.channels).tobytes()


def kind_of(request: messages.Request) -> str:
    if isinstance(request, ScoreRequest):
        kinds = {
            "inspected": request.inspected,
            "coded score": request.coded,
            "tolerant": request.tolerances,
        }
        kinds |= {"classified": request.classified}
        return next((kind for kind, asked in kinds.items() if asked), "score")
    kinds = {"code": request.codes, "guided": request.is_guided, "particles": request.particles > 1}
    return next(
        (kind for kind, asked in kinds.items() if asked),
        "completion" if request.known else "painting",
    )


def _left_over(engine: Engine) -> list[str]:
    """Return what an idle engine still holds, though no request needs it."""
    scheduler = engine.scheduler
    prefixes = engine.admission.prefixes
    tree = engine.admission.tree
    prefills = engine.prefills
    faults = []
    held: dict[str, Collection[object]] = {
        "requests": engine.requests,
        "streams": engine.streams.requests,
        "refusals": engine.refused,
        "times of unpainted requests": engine.recorder.unpainted,
        "images in slots": scheduler.assigned,
        "groups of slots": scheduler.groups,
        "slots of requests": scheduler.slots_of,
        "slots of clients": scheduler.held,
        "waiting images": scheduler.waiting,
        "requests on hold": scheduler.on_hold,
        "turns": [*scheduler.turns],
        "clients in turn": scheduler.turns.clients,
        "prefills that wait": prefills.waiting,
        "prefills that began": prefills.begun,
        "prefills in a batch": prefills.batch,
        "prefills after a failure": prefills.alone,
        "clients of prefills": prefills.client_of,
        "passes": prefills.passes,
    }
    faults += [f"{name} are left: {things!r:.200}" for name, things in held.items() if len(things)]
    if scheduler.is_busy.any() or len(scheduler.free) != scheduler.slots:
        faults.append(f"{int(scheduler.is_busy.sum())} slots are busy, {len(scheduler.free)} free")
    if prefixes.used or prefixes.held or len(prefixes.wanted):
        faults.append(f"{prefixes.used} prefixes are left")
    if tree is not None:
        segments = sum(node.segments[label].bytes for node, label in tree.used)
        if tree.bytes != segments:
            faults.append(f"the prefix tree counts {tree.bytes} bytes and holds {segments}")
    return faults


def _bits(intervals: bytes) -> float:
    """Return the bits of an image's intervals, less those of as many whole ones."""
    return float(-np.log2(np.frombuffer(intervals, np.uint32)[1::2]).sum())


def main() -> None:
    """Run mixes until so many requests were compared; print the faults, then
    how many there were of each kind.
    """
    options = argparse.ArgumentParser(description=main.__doc__)
    options.add_argument("--requests", type=int, default=2000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--backend", default="cpu")
    given = options.parse_args()
    torch.set_num_threads(1)
    kinds: Counter[str] = Counter()
    seed = given.seed
    faults = 0
    while kinds.total() < given.requests:
        mix = Mix(seed, given.backend)
        for fault in mix.run():
            faults += 1
            print(f"{mix}: {fault}", flush=True)
        kinds += mix.kinds
        seed += 1
    print(f"{kinds.total()} requests in {seed - given.seed} mixes: {dict(kinds)}; {faults} faults")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
