"""Particles in the engine: resampled, sent as far as they are final,
counted; held against enumerable models.
"""

import functools
from dataclasses import dataclass, replace

import numpy as np
import pytest

from scanline.kernels import cpu as cpu_kernels
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.base.messages import Failed, Finished, GenerateRequest, Pixels
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.kinds.particles import Particles, checks
from tests.support import small_models
from tests.support.engine.batch_composition import Painter, painted_alone
from tests.support.engine.engine_ticks import ended, images_of, of_kind, run_until_idle
from tests.support.engine.queued_generator import QueuedGenerator
from tests.support.kernels.native import NATIVE
from tests.support.sweeps import and_slow

GREY = small_models.config(height=4, width=4)


def mask(rows):
    """[N] bool of rows of 4 pixels: # is known."""
    return np.array([pixel == "#" for pixel in rows.replace(" ", "")])


@pytest.mark.parametrize(
    ("rows", "expected"),
    {
        "#### #### #### ####": [],
        ".... .... .... ....": [],
        "#### ##.. .... ....": [],  # nothing known follows: all particles weigh the same
        "#### #..# .... ....": [8],
        "#.## #.## #### .###": [5, 12],
        ".### .### .### .###": [4, 8, 12],
        "#### .... #### ####": [],  # the last known bytes are weighed at the end
        ".... .#.. .... ....": [8],
        ".##. ...# ##.. #...": [4, 10, 13],
    }.items(),
)
def test_checks_are_before_a_row_s_first_hidden_byte_where_any_was_weighed(rows, expected):
    assert checks(mask(rows), GREY) == expected


def test_checks_of_a_pixel_model_are_between_steps():
    config = small_models.config(height=4, width=4, **small_models.VARIANTS["pixels"])
    known = np.repeat(mask("#.## #.## #### .###"), 3)
    known[3] = True  # the red of the first hidden pixel
    assert checks(known, config) == [15, 36]
    known[15] = True
    assert checks(known, config) == [15, 36]


def test_particles_agree_up_to_the_first_byte_in_which_any_differs():
    kind = Particles(3)
    images = np.zeros((3, 8), np.uint8)
    assert kind.final(images, 6) == 6
    images[2, 6] = 1
    assert (kind.final(images, 6), kind.final(images, 8)) == (6, 6)
    images[1, 2] = 9
    assert kind.final(images, 8) == 2
    assert kind.final(images[:1], 8) == 8


PARTICLES = 5
MASKS = {
    "hole": lambda n: (np.arange(n) < n // 3) | (np.arange(n) > n // 2),
    "thirds": lambda n: np.arange(n) % 3 == 1,
}


class Case:
    """A model, a request whose images have several particles, and
    those images, each painted alone.
    """

    def __init__(self, variant, mask, backend):
        options = {**small_models.VARIANTS[variant], "height": 6, "width": 5}
        self.model = small_models.model(small_models.config(**options))
        self.backend = backend
        config = self.model.config
        known = small_models.images(config, 2, seed=3)
        where = MASKS[mask](config.bytes)
        shown = {"known": tuple(map(bytes, known)), "masks": (where.tobytes(),) * 2}
        self.request = GenerateRequest(0, 4, 77, **shown, particles=PARTICLES)
        images = {i: [*Particles(PARTICLES).specs(self.request.image(i))] for i in range(4)}
        alone = painted_alone(Painter(self.model, backend, "exact"), images)
        self.expected = {
            index: Finished(
                0,
                index,
                image,
                bits / config.bytes,
                evidence_bits=evidence,
                effective_particles=effective,
            )
            for index, (image, bits, evidence, effective) in alone.items()
        }
        assert all(1 <= each.effective_particles < PARTICLES for each in self.expected.values())

    def generator(self, slots, threads=1, kind=Generator):
        return kind(self.model, slots, threads, backend=self.backend)

    def check(self, events):
        assert {event.index: event for event in of_kind(events, Finished)} == self.expected


@pytest.fixture(scope="module")
def plain():
    return Case("plain", "thirds", "cpu" if cpu_kernels.available() else "eager")


CASES = [
    pytest.param(one, "thirds", "cpu", marks=NATIVE)
    for one in ("plain", "histogram", "colour", "strokes", "pixels")
]
CASES += and_slow([("plain", "hole", "eager")], ("pixels", "thirds", "eager"))


@pytest.mark.parametrize(("variant", "mask", "backend"), CASES)
def test_the_engine_paints_an_image_from_check_to_check(variant, mask, backend):
    case = Case(variant, mask, backend)
    case.check(
        run_until_idle(Engine(case.generator(2 * PARTICLES + 1, 2, QueuedGenerator)), case.request)
    )


@pytest.mark.parametrize("kind", [Generator, QueuedGenerator])
def test_provisional_bytes_are_those_of_the_first_particle_after_the_final_ones(
    plain, kind, monkeypatch
):
    monkeypatch.setattr("scanline.model.sampling.stats.tick_length.MAX_STEPS", 4)
    generator = plain.generator(2 * PARTICLES, 1, kind)
    engine = Engine(generator)
    engine.accept(replace(plain.request, stream=True, provisional=True))
    sent = dict.fromkeys(range(4), b"")
    provisional = []
    finished = []
    while not engine.idle:
        engine.streams.frames_at = 0.0
        for stream in engine.streams.requests.values():
            stream.frames_at = 0.0
        events = engine.tick()
        finished += of_kind(events, Finished)
        for event in of_kind(events, Pixels):
            for index, first, data in event.painted:
                assert len(sent[index]) == first
                sent[index] += data
            for index, first, data in event.provisional:
                assert len(sent[index]) == first
                image = sent[index] + data
                provisional.append(image != plain.expected[index].image[: len(image)])
                if kind is Generator:  # a queued one has not come so far, or further
                    (particles,) = (
                        one for one in engine.scheduler.assigned.values() if one.index == index
                    )
                    stop = particles.painted(engine.scheduler.positions)
                    assert image == generator.image(particles.slot).tobytes()[:stop]
    plain.check(finished)
    assert sent == {index: one.image for index, one in plain.expected.items()}
    assert True in provisional


def test_particles_without_a_known_byte_after_a_hidden_one_are_one_particle(
    grey,
):
    """The bytes, and the slots, are those of an image without particles."""
    known = small_models.images(grey.config, 1)
    where = np.arange(35) < 12
    request = GenerateRequest(0, 4, 5, (known.tobytes(),), (where.tobytes(),))
    one, several = (
        run_until_idle(Engine(Generator(grey, 2, threads=1)), replace(request, particles=count))
        for count in (1, 5)
    )
    assert one == several
    bits = Generator(grey, 1, threads=1).score(known)[0, :12].sum()
    for event in one:
        assert (event.evidence_bits, event.effective_particles) == (pytest.approx(bits), 1.0)


def test_an_image_that_completes_nothing_has_no_evidence(engine):
    (event,) = run_until_idle(engine, GenerateRequest(0, 1, seed=0))
    assert (event.evidence_bits, event.effective_particles) == (None, None)


def test_more_particles_than_slots_fail_with_a_sentence_and_others_are_painted(plain):
    events = run_until_idle(
        Engine(plain.generator(PARTICLES - 1)), plain.request, GenerateRequest(1, 3, seed=0)
    )
    sentence = "This server has 4 slots, and an image of 5 particles needs one for each."
    assert of_kind(events, Failed) == [Failed(0, sentence, "invalid_value", "particles")]
    assert ended(events, Finished) == [1] * 3


def test_slots_count_particles_and_painted_bytes_count_an_image_once(plain):
    engine = Engine(plain.generator(2 * PARTICLES))
    engine.accept(plain.request)
    engine.tick()
    while not engine.scheduler.assigned:
        engine.tick()
    assert engine.stats().images_running == len(engine.scheduler.assigned) * PARTICLES
    run_until_idle(engine)
    stats = engine.stats()
    assert stats.painted_bytes + stats.known_bytes == 4 * 30
    assert max(np.flatnonzero(stats.step_images.counts)) >= 3
    assert not stats.images_running


def test_numbers_that_are_not_finite_in_all_particles_fail_the_image_and_in_one_do_not(
    plain,
):
    generator = plain.generator(2 * PARTICLES)
    engine = Engine(generator)
    engine.tick_length.last = (1.0, 1)  # a step a tick
    for spoilt in (1, PARTICLES):
        engine.accept(replace(plain.request, n=2, stream=True))
        while not engine.scheduler.groups:
            engine.tick()
        slots = next(iter(engine.scheduler.groups.values())).slots[-spoilt:]
        generator.pool.known_bits[list(slots)] = float("nan")
        generator.pool.bits[list(slots)] = float("inf")
        ended = [type(event) for event in run_until_idle(engine) if not isinstance(event, Pixels)]
        assert ended == [[Finished, Finished], [Failed]][spoilt > 1]


IMAGES = 600
SLOTS = 4096
BINS = 16
LIMIT = 50.5  # the quantile of chi-square with 15 degrees of freedom that 1 in 100,000 exceeds
PIXELS = {**small_models.VARIANTS["pixels"], "height": 2, "width": 2, "window_columns": 2}
EXACT = {  # model options, how much sharper, and the hidden bytes
    "one byte": ({"height": 2, "width": 3, "predicts": "categorical"}, 1.5, (1,)),
    "two bytes apart": ({"height": 2, "width": 3}, 1, (1, 3)),
    "the red of a pixel": (PIXELS, 0.5, (3,)),
}
SOME = and_slow(["two bytes apart", "the red of a pixel"], "one byte")


@dataclass(frozen=True)
class Exact:
    """A model, an image with hidden bytes, and what enumeration finds of it."""

    model: Transformer
    image: np.ndarray  # [N] uint8
    mask: np.ndarray  # [N] bool
    evidence: float  # the probability of the known bytes
    posterior: np.ndarray  # [256 ^ hidden] of the hidden bytes, the first one slowest


@functools.cache
def exact(case):
    """Enumerates the hidden bytes of one of the model's own images."""
    options, scale, hidden = EXACT[case]
    config = small_models.config(**options, layers=1)
    model = small_models.model(config, seed=1)
    mask = np.ones(config.bytes, np.bool_)
    model.head.weight.mul_(scale)
    mask[list(hidden)] = False
    generator = Generator(model, 1, threads=1)
    given = np.frombuffer(
        images_of(run_until_idle(Engine(generator), GenerateRequest(0, 1, 5))), np.uint8
    )
    values = np.stack(
        np.meshgrid(*[np.arange(256, dtype=np.uint8)] * len(hidden), indexing="ij"), axis=-1
    )
    every = np.tile(given, (256 ** len(hidden), 1))
    every[:, list(hidden)] = values.reshape(-1, len(hidden))
    probabilities = np.exp2(-generator.score(every).sum(axis=1))
    return Exact(
        model, given, mask, float(probabilities.sum()), probabilities / probabilities.sum()
    )


@functools.cache
def completions(case, particles):
    """Completions, in the order of their indices."""
    found = exact(case)
    generator = Generator(found.model, SLOTS, threads=1)
    known = (found.image.tobytes(),)
    masks = (found.mask.tobytes(),)
    request = GenerateRequest(0, IMAGES, 11, known=known, masks=masks, particles=particles)
    events = run_until_idle(Engine(generator), request)
    return sorted((one for one in events if isinstance(one, Finished)), key=lambda one: one.index)


def chi_square(found, images):
    """Of so many bins of hidden values, whose true probabilities are about the
    same, those that are alike together.
    """
    painted = np.stack([np.frombuffer(image, np.uint8) for image in images])[:, ~found.mask].astype(
        np.int64
    )
    values = painted @ (256 ** np.arange(painted.shape[1])[::-1])
    order = np.argsort(-found.posterior, kind="stable")
    before = np.cumsum(found.posterior[order]) - found.posterior[order]
    bins = np.empty(len(order), np.int64)
    bins[order] = np.minimum(BINS * before, BINS - 1).astype(np.int64)
    expected = np.bincount(bins, found.posterior, BINS) * len(images)
    observed = np.bincount(bins[values], minlength=BINS)
    used = expected > 0
    assert observed[~used].sum() == 0
    return float(((observed - expected)[used] ** 2 / expected[used]).sum())


@pytest.mark.parametrize("particles", and_slow([1, 64], 4))
@pytest.mark.parametrize("case", SOME)
def test_the_mean_of_the_evidence_is_the_probability_of_the_known_bytes(case, particles):
    found = exact(case)
    ratios = (
        np.exp2(-np.array([one.evidence_bits for one in completions(case, particles)]))
        / found.evidence
    )
    error = ratios.std(ddof=1) / np.sqrt(len(ratios))
    assert error < 0.15, "the estimate says little"
    assert abs(ratios.mean() - 1) < 4 * error + 1e-4


@pytest.mark.parametrize("case", SOME)
def test_completions_of_many_particles_are_distributed_as_the_model_says_and_of_one_they_are_not(
    case,
):
    found = exact(case)
    assert chi_square(found, [one.image for one in completions(case, 64)]) < LIMIT
    assert chi_square(found, [one.image for one in completions(case, 1)]) > LIMIT
