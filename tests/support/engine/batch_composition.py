"""Images of every kind painted alone, and in a batch with arrivals and departures,
with any backend of a generator.
"""

from dataclasses import dataclass, replace

import numpy as np

from scanline.kernels.codec.coder import Decoder, encode
from scanline.model.backends.groups import Groups
from scanline.model.base.state import NUMBERS
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.base.prefill_state import Reading
from scanline.model.sampling.kinds.image_spec import ImageSpec
from scanline.model.sampling.kinds.particles import checks
from scanline.model.sampling.prefill.coded import CodedPrefill
from tests.support import small_models

PARTICLES = 5


@dataclass(frozen=True)
class Painter:
    """A model with classes, and how it is run."""

    model: Transformer
    backend: str
    precision: str

    def generator(self, slots, threads=None):
        return Generator(self.model, slots, threads, self.precision, self.backend)


def watched(painter):
    """Images of every kind. In pixels of three bytes, a prefix ends within a pixel and the known
    bytes are green, or of each pixel another."""
    config = painter.model.config
    known = small_models.images(config, 1)[0]
    place = np.arange(config.bytes)
    prefix = {"known": known, "mask": place < min(16, config.bytes // 2)}
    midst, mixed = ({"known": known, "mask": place % every == 1} for every in (3, 2))
    both = {"known": known, "mask": prefix["mask"] | mixed["mask"]}
    return {
        "free": [ImageSpec(1, 0)],
        "tempered": [ImageSpec(1, 1, temperature=0.5)],
        "of a class": [ImageSpec(1, 2, label=2)],
        "of a large seed": [ImageSpec(2**63 - 1, 12_345)],
        "known prefix": [ImageSpec(2, 0, **prefix)],
        "known prefix, of a class": [ImageSpec(2, 0, **prefix, label=1)],
        "known midst": [ImageSpec(2, 1, temperature=1.7, **midst)],
        "known bytes of every pixel": [ImageSpec(2, 2, **mixed, label=3)],
        "guided": _guided(ImageSpec(1, 3, label=1, guidance=2.5)),
        "guided, known prefix": _guided(
            ImageSpec(2, 3, temperature=0.9, **both, label=3, guidance=1.5)
        ),
        "particles": _particles(ImageSpec(2, 4, **mixed, label=1)),
        "particles, known prefix": _particles(ImageSpec(2, 5, temperature=0.8, **both)),
        "code": [_coded(painter, known, label=2)],
    }


def _guided(spec):
    return [spec, replace(spec, label=0)]


def _particles(spec):
    return [replace(spec, particle=particle, particles=PARTICLES) for particle in range(PARTICLES)]


def _coded(painter, image, label):
    """Return an image to be painted from its code, which is that of a read of it."""
    generator = painter.generator(slots=1, threads=1)
    reading = generator.start_prefill(
        image[None], [len(image)], [label], reading=Reading(CodedPrefill)
    )
    generator.run_prefill(reading).wait()
    intervals = reading.intervals_of(0)
    generator.close()
    return ImageSpec(0, 0, label=label, code=Decoder(encode(map(tuple, intervals.tolist()))))


def painted_alone(painter, images):
    """Paint each image in a generator of its own, and in as few calls as it needs."""
    result = {}
    for name, image in images.items():
        generator = painter.generator(slots=len(image), threads=1)
        batch = _Batch(generator)
        batch.start(name, image, list(range(len(image))), _prefixes(generator, image))
        while not batch.finished:
            batch.advance([name], painter.model.config.steps)
        result |= batch.finished
        generator.close()
    return result


def in_a_batch(generator, images):
    """Paint images among others; all arrive and pause at any time, and some of the
    others leave before their end. Prefixes are read together, and a slot that is free
    holds numbers that no image may read."""
    rng = np.random.default_rng(generator.slots)
    batch = _Batch(generator)
    batch.poison(range(generator.slots))
    prefixes = iter(_prefixes(generator, [spec for image in images.values() for spec in image]))
    held = {name: [next(prefixes) for _ in image] for name, image in images.items()}
    seeds = rng.integers(0, 2**62, generator.slots + 3).tolist()
    others = {
        f"other {seed}": [ImageSpec(seed, 0, temperature=1.2, label=seed % 4)] for seed in seeds
    }
    everything = images | others
    queue = [*images, *others]
    rng.shuffle(queue)
    while not images.keys() <= batch.finished.keys():
        free = rng.permutation(batch.free).tolist()
        for _ in range(len(free)):
            if not queue or len(everything[queue[-1]]) > len(free) or rng.random() < 0.3:
                continue
            name = queue.pop()
            slots = free[: len(everything[name])]
            free = free[len(everything[name]) :]
            batch.start(name, everything[name], slots, held.get(name, [None]))
        batch.advance([name for name in batch.slots if rng.random() < 0.9], int(rng.integers(1, 9)))
        for name in [name for name in batch.slots if name in others and rng.random() < 0.1]:
            generator.clear(batch.slots[name])
            batch.leave(name)
    return {name: batch.finished[name] for name in images}


def _prefixes(generator, specs):
    """Read the known first bytes of images together; particles of one image share them."""
    first = [spec for spec in specs if spec.prefix and not spec.particle]
    if not first:
        return [None] * len(specs)
    images = np.stack([spec.known for spec in first if spec.known is not None])
    reading = generator.start_prefill(
        images, [*map(generator.prefix, first)], [spec.label for spec in first]
    )
    generator.run_prefill(reading).wait()
    rows = iter(range(len(first)))
    found = []
    for spec in specs:
        shared = found[-1] if spec.particle else None
        found.append(reading.prefix(next(rows)) if spec.prefix and not spec.particle else shared)
    return found


class _Batch:
    """The images in flight in a generator, which is the scheduler's and
    the engine's part in a few lines.
    """

    def __init__(self, generator):
        self.generator = generator
        self.length = generator.config.bytes
        self.slots = {}
        # positions at which an image's particles are still to be resampled
        self.checks = {}
        self.finished = {}

    @property
    def free(self):
        taken = {slot for slots in self.slots.values() for slot in slots}
        return [slot for slot in range(self.generator.slots) if slot not in taken]

    def start(self, name, image, slots, prefixes):
        self.generator.place_many(slots, image, prefixes)
        self.slots[name], self.checks[name] = slots, []
        if image[0].particles > 1:
            self.checks[name] = [*checks(image[0].mask, self.generator.config), self.length]

    def advance(self, names, steps):
        """Paint up to so many steps of some images, none beyond
        a check; end those that are done.
        """
        at = self.generator.positions()
        left = [
            self.checks[name][0] - int(at[self.slots[name][0]])
            for name in names
            if self.checks[name]
        ]
        stepped = np.array(sorted(slot for name in names for slot in self.slots[name]), np.int64)
        self.generator.step(
            stepped, min([steps, *(each // self.generator.config.step_bytes for each in left)])
        ).wait()
        at = self.generator.positions()
        for name in names:
            slots = self.slots[name]
            position = int(at[self.slots[name][0]])
            if self.checks[name] and self.checks[name][0] == position:
                group = Groups(np.array([slots]), np.array([self.checks[name].pop(0)]))
                (self.generator.choose if position == self.length else self.generator.resample)(
                    group
                )
            if position == self.length:
                found = self.generator.fetch(slots[:1]).wait()
                # which show a difference in any last bit
                numbers = found.bits[0], found.evidence_bits[0], found.effective_particles[0]
                self.finished[name] = found.images[0].tobytes(), *map(float, numbers)
                self.leave(name)

    def leave(self, name):
        self.poison(self.slots.pop(name))
        del self.checks[name]

    def poison(self, slots):
        """Fill slots with what no image may ever read: NaN as state, noise as bytes."""
        for name in NUMBERS:
            getattr(self.generator.pool.state, name)[:, list(slots)] = float("nan")
        self.generator.pool.images[list(slots)] = 173
