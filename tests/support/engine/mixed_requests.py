"""Random mixes of requests of every kind in one engine; each answer must equal
the one that its request gets alone.

    python -m tests.support.engine.mixed_requests --requests 20000 [--seed 0] [--backend eager]

A mix is a model, an engine of drawn size, and requests (drawn_requests.py) of several clients,
which arrive while others are in progress; some are cancelled, and of some a part is asked, as a
shard or as what is left of one that is repeated, or images far away. The prefix tree has to
forget. In some mixes the device works on its own, as a GPU does, and in some ticks of some it
fails. The reference runs one request at a time, without the prefix tree, on another instruction
set. Nothing depends on time: a seed is a mix. In the end the engine holds nothing.
"""

import argparse
import itertools
import random
import sys
import traceback
from collections import Counter, defaultdict
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from operator import attrgetter
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
from tests.support.drawn_requests import Drawing
from tests.support.engine.queued_generator import (
    LateGenerator,
    QueuedGenerator,
    SteppingGenerator,
)

WINDOW = small_models.WINDOW
STROKES = {**WINDOW, **small_models.WAVES, "predicts": "categorical"}
PIXELS = {**WINDOW, **small_models.COLOUR_PIXELS, **small_models.MIXED}
MODELS = {
    "strokes": {"height": 9, "width": 6, **STROKES},
    "mixed": {"height": 8, "width": 5, **WINDOW, **small_models.MIXED, "predicts": "categorical"},
    "pixels": {"height": 6, "width": 5, **PIXELS},
    "grey": {"height": 11, "width": 5, "layers": 1},
    "no start": {"height": 8, "width": 5, **small_models.NO_START},
    "post": {"height": 6, "width": 6, **WINDOW, "norm": "post", "predicts": "categorical"},
}
BREAKABLE = ("start_prefill", "run_prefill", "place_many", "start", "resample", "choose", "fetch")
REFERENCE_SLOTS = 64
MAX_TICKS = 20_000
MANY = (40, 40, 2**31, 2**53, 2**60)  # images; three of them where these are too many
# of an engine; of an idle one all are empty
HOLDS = (
    "requests",
    "refused",
    "streams.requests",
    "recorder.unpainted",
    "scheduler.assigned",
    "scheduler.groups",
    "scheduler.slots_of",
    "scheduler.held",
    "scheduler.waiting",
    "scheduler.on_hold",
    "scheduler.turns",
    "scheduler.turns.clients",
    "choices.waiting",
    "prefills.waiting",
    "prefills.begun",
    "prefills.batch",
    "prefills.alone",
    "prefills.client_of",
    "prefills.passes",
    "admission.prefixes.held",
    "admission.prefixes.wanted",
)


@contextmanager
def instruction_set(isa):
    with mock.patch.object(cpu_kernels, "instruction_sets", return_value=[isa]):
        yield


@contextmanager
def breaking(generator, name, calls):
    """After so many calls, each one under that name fails."""
    done = itertools.count()

    def broken(*arguments):
        if next(done) >= calls:
            raise RuntimeError("It broke.")
        return getattr(type(generator), name)(generator, *arguments)

    setattr(generator, name, broken)
    yield
    delattr(generator, name)


class Answers:
    """What one request got: an answer for each image, and what was streamed of it."""

    def __init__(self):
        self.images = {}
        self.streams = defaultdict(bytes)
        self.faults = []

    def add(self, event):
        match event:
            case Finished():
                # an image without particles has no evidence: None, or NaN, which equals nothing
                weights = (event.bits_per_dim, event.evidence_bits, event.effective_particles)
                self._add(event.index, (event.image, *map(repr, weights), event.label))
            case Scored():
                steps = event.steps and event.steps.arrays
                self._add(event.index, (event.bits, event.intervals, steps, event.answer))
            case Pixels():
                for index, first, data in event.painted:
                    # An image that lost its slots starts anew, with the same bytes.
                    before = self.streams[index][:first]
                    self.streams[index] = before.ljust(first, b"\0") + data
            case Failed():
                self.faults.append(f"failed: {event.message} {event.code}")

    def _add(self, index, answer):
        if index in self.images:
            self.faults.append(f"image {index} ended twice")
        self.images[index] = answer


class Mix:
    """One mix, drawn by its seed; `run` returns its faults."""

    def __init__(self, seed, backend="cpu"):
        self.rng = rng = random.Random(seed)
        name = rng.choice([*MODELS])
        classes = small_models.CLASSES if rng.random() < 0.85 else {}
        self.config = small_models.config(**MODELS[name], **classes)
        self.model = small_models.model(self.config, rng.randrange(3))
        if classes:
            self.model.class_head = small_models.class_head(self.config)
        if self.config.predicts == "categorical" and rng.random() < 0.6:
            # one byte nearly certain: images begin alike, and the prefix tree has work
            with torch.no_grad():
                self.model.head.bias[0] += 6.0
        isas = ["portable"]
        precision = "exact"
        if backend == "cpu":
            isas = cpu_kernels.instruction_sets()
            precision = rng.choice(["exact", "exact", "int8"])
        self.isa = rng.choice(isas)
        self.other = rng.choice(isas)
        self.slots = rng.choice([1, 2, 3, 8, 17, 32, 64])
        self.spare = rng.choice([0, 0, 1, 4])
        self.threads = rng.choice([1, 2, 2, 3])
        self.run_by = (precision, backend)
        self.device = rng.choice([Generator, LateGenerator, QueuedGenerator])
        # how far a pass paints ahead: as is worth its cost, or at most so many steps
        self.widest = (0, 2, 7, 42)[seed % 4]
        self.failing_ticks = rng.choice([0.0, 0.0, 0.05])
        self.drawing = Drawing(rng, self.config, self.slots, bool(classes))
        # by request: pictures and labels of its codes
        self.decoded = {}
        self.kinds = Counter()
        self.name = (
            f"mix {seed} ({name}, {precision}, {self.slots}+{self.spare} slots, "
            f"{self.threads} threads, {self.isa} / {self.other}, {self.device.__name__}, "
            f"{self.widest} ahead, "
            f"{self.failing_ticks} fail)"
        )

    def __str__(self):
        return self.name

    def run(self):
        """Run the mix and compare; return one line for each fault."""
        with instruction_set(self.other):
            generator = SteppingGenerator(self.model, REFERENCE_SLOTS, 1, *self.run_by)
            self.reference = Engine(generator)
        self.reference.admission.tree = None
        requests = [self._request(number) for number in range(1, self.rng.randrange(6, 41))]
        kept = mock.patch.object(prefix_tree, "KEPT", self.rng.choice([1, 3, 256]))
        with instruction_set(self.isa), kept:
            answers, ended, faults = self._together(requests)
        for request in requests:
            if request.id in ended:
                self.kinds["cancelled or failed"] += 1
                continue
            kind = kind_of(request)
            self.kinds[kind] += 1
            for fault in self._differences(request, answers[request.id]):
                faults.append(f"{kind} {request.id}: {fault}; {request!r:.300}")
        generator.close()
        return faults

    def _together(self, requests):
        """Return what the requests get in one engine, those that were cancelled or failed in a tick
        that broke, and what is wrong with the engine."""
        rng = self.rng
        answers = defaultdict(Answers)
        faults = []
        generator = self.device(self.model, self.slots, self.threads, *self.run_by, self.spare)
        generator.backend.widest = self.widest
        engine = Engine(generator)
        if engine.admission.tree is not None:
            engine.admission.tree.most_bytes = rng.choice([0, 20_000, 60_000, 64 << 20])
        pending = [*requests]
        accepted = []
        over = set()

        def cancel(request):
            engine.accept(messages.Cancel(request))
            over.add(request)

        try:
            for _ in range(MAX_TICKS):
                while pending and (engine.idle or rng.random() < 0.5):
                    request = pending.pop(0)
                    engine.accept(request)
                    accepted.append(request.id)
                    if rng.random() < 0.08:
                        cancel(request.id)
                if accepted and rng.random() < 0.03:
                    cancel(rng.choice(accepted))
                breaks = rng.random() < self.failing_ticks
                mishap = breaking(generator, rng.choice(BREAKABLE), rng.randrange(3))
                with mishap if breaks else nullcontext():
                    events = engine.tick()
                for event in events:
                    if not isinstance(event, Finished | Scored | Pixels | Failed):
                        continue
                    if event.request in over:
                        kind = type(event).__name__
                        faults.append(f"request {event.request} was over and got {kind}")
                    if breaks and isinstance(event, Failed):
                        over.add(event.request)
                    else:
                        answers[event.request].add(event)
                scheduler = engine.scheduler
                slots = [*scheduler.free, *scheduler.spare]
                for assignment in scheduler.assigned.values():
                    slots += assignment.slots
                if sorted(slots) != [*range(self.slots + self.spare)]:
                    faults.append("a slot is lost, or has two images")
                if engine.idle and not pending:
                    break
            else:
                faults.append("the engine never gets idle")
            faults += _left_over(engine)
        except Exception:
            faults.append(traceback.format_exc())
        generator.close()
        return answers, over, faults

    def _alone(self, request):
        answers = Answers()
        self.reference.accept(request)
        while not self.reference.idle:
            for event in self.reference.tick():
                answers.add(event)
        return answers.images

    def _differences(self, request, answers):
        """Yield what differs between a request's answers and those that it gets alone."""
        yield from answers.faults
        is_streamed = False
        if isinstance(request, GenerateRequest):
            is_streamed = request.stream
            request = replace(request, stream=False, snapshot=None)
        expected = self._alone(request)
        if expected.keys() != answers.images.keys():
            yield f"images {sorted(answers.images)} instead of {sorted(expected)}"
            return
        pictures = self.decoded.get(request.id)
        for index, answer in expected.items():
            found = answers.images[index]
            if found != answer:
                wrong = [i for i, part in enumerate(answer) if part != found[i]]
                yield f"image {index} differs in {wrong}"
            if pictures and pictures[index] != (found[0], found[-1]):
                yield f"image {index} is not the picture that was encoded, with its label"
            streamed = answers.streams[index]
            if is_streamed and not found[0].startswith(streamed):
                yield f"image {index} was streamed otherwise"
            # which candidate is chosen is known after the last step
            if is_streamed and request.best_of == 1 and len(streamed) < len(found[0]):
                yield f"image {index} was streamed up to byte {len(streamed)}"

    def _request(self, number):
        """Return a drawn request, codes of one, or a part of either."""
        rng = self.rng
        request = self.drawing.request()
        if isinstance(request, ScoreRequest) and request.coded and rng.random() < 0.6:
            request = rng.choice([self._decoding, self._noise])(number, request)
        request = replace(request, id=number, client=rng.choice(["a", "b", "c", ""]))
        takes_any_n = isinstance(request, GenerateRequest) and not (request.listed or request.codes)
        if takes_any_n and rng.random() < 0.1:
            n = max(len(request.known), 1) * rng.choice(MANY)
            request = replace(request, n=n)
            if n < 200:
                return request
            first = rng.choice([0, rng.randrange(n - 3), n - 3])
            return replace(request, only=tuple(range(first, first + 3)))
        if len(request.indices) == 1 or rng.random() < 0.7:
            return request
        size = rng.randrange(1, len(request.indices))
        some = tuple(sorted(rng.sample(request.indices, size)))
        return rng.choice([request.shard(some), replace(request, only=some)])

    def _noise(self, number, request):
        """Return a request to decode random bytes, which decode to something."""
        rng = self.rng
        count = len(request.images)
        length = rng.choice([1, 2, 5])
        codes = tuple(rng.randbytes(rng.randrange(40)) for _ in range(0, count, length))
        labelled = tuple(rng.random() < 0.5 for _ in codes)
        return self._of_codes(
            count, Codes(codes, length, rng.choice([(True,) * len(codes), (), labelled]))
        )

    def _decoding(self, number, request):
        """Return a request to decode the codes of images: of one file, or of two, of which the
        second has no labels."""
        rng = self.rng
        images = request.images
        labels = request.labels or (0,) * len(images)
        length = rng.choice([1, 2, 3])
        plain = self._alone(replace(request, labels=()))
        labelled = self._alone(request)
        cut = rng.choice([len(images), length * rng.randrange(1 + len(images) // length)])
        codes = []
        with_labels = []
        decoded = self.decoded[number] = []
        files = [(1 + len(self.config.classes), range(cut)), (1, range(cut, len(images)))]
        for kinds, part in files:
            encoder = Encoder(kinds, length)
            for i in part:
                encoder.add(plain[i][1], labels[i], labelled[i][1])
            file = encoder.finish()
            codes += file.codes
            with_labels += [file.is_labelled(0)] * len(file.codes)
            for i in part:
                is_shorter = _bits(labelled[i][1]) < _bits(plain[i][1])
                label = labels[i] if file.is_labelled(0) and is_shorter else 0
                decoded.append((images[i], label))
        return self._of_codes(len(images), Codes(tuple(codes), length, tuple(with_labels)))

    def _of_codes(self, count, codes):
        request = GenerateRequest(0, count, 0, codes=codes)
        if self.rng.random() < 0.7:
            return request
        return replace(request, stream=True, provisional=self.rng.random() < 0.5)


def kind_of(request):
    if isinstance(request, ScoreRequest):
        kinds = {
            "inspected": request.inspected,
            "coded score": request.coded,
            "classified": request.classified,
            "tolerant": request.tolerances,
            "score": True,
        }
    else:
        kinds = {
            "code": request.codes,
            "best of several": request.best_of > 1,
            "guided": request.guidance != 1,
            "particles": request.particles > 1,
            "completion": request.known,
            "painting": True,
        }
    return next(kind for kind, is_asked in kinds.items() if is_asked)


def _left_over(engine):
    """Return what an idle engine still holds, though no request needs it."""
    scheduler = engine.scheduler
    tree = engine.admission.tree
    faults = []
    for name in HOLDS:
        things = attrgetter(name)(engine)
        if len(things):
            faults.append(f"{name} are left: {things!r:.200}")
    if scheduler.is_busy.any() or len(scheduler.free) != scheduler.slots:
        faults.append(f"{int(scheduler.is_busy.sum())} slots are busy, {len(scheduler.free)} free")
    if engine.admission.prefixes.used:
        faults.append(f"{engine.admission.prefixes.used} prefixes are left")
    if tree is not None:
        segments = sum(node.segments[label].bytes for node, label in tree.used)
        if tree.bytes != segments:
            faults.append(f"the prefix tree counts {tree.bytes} bytes and holds {segments}")
    return faults


def _bits(intervals):
    """Return the bits of an image's intervals, less those of as many whole ones."""
    widths = np.frombuffer(intervals, np.uint32)[1::2]
    return float(-np.log2(widths).sum())


def main():
    """Run mixes until so many requests were compared; print the faults, then
    how many there were of each kind.
    """
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", default="cpu")
    options = parser.parse_args()
    torch.set_num_threads(1)
    kinds = Counter()
    faults = 0
    for seed in itertools.count(options.seed):
        mix = Mix(seed, options.backend)
        for fault in mix.run():
            faults += 1
            print(f"{mix}: {fault}", flush=True)
        kinds += mix.kinds
        if kinds.total() >= options.requests:
            break
    print(f"{kinds.total()} requests, the last of mix {seed}: {dict(kinds)}; {faults} faults")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
