"""Particles in the engine: resampled at the checks, sent as far as they are final, counted once, and refused alone."""

from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from scanline.kernels import cpu as cpu_kernels
from scanline.model.backends.particles import Groups
from scanline.model.backends.slots import Fetched
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import Event, Failed, Finished, GenerateRequest, Pixels
from scanline.model.sampling.particles import agreed, checks
from tests.support import small_models
from tests.support.engine.engine_ticks import run_until_idle
from tests.support.engine.queued_generator import QueuedGenerator

GREY = small_models.config(height=4, width=4)


def mask(rows: str) -> np.ndarray:
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
def test_checks_are_before_the_first_hidden_byte_of_a_row_where_a_byte_was_weighed_since(
    rows: str, expected: list[int]
) -> None:
    assert checks(mask(rows), GREY) == expected


def test_checks_of_a_pixel_model_are_between_steps() -> None:
    config = small_models.config(height=4, width=4, **small_models.VARIANTS["pixels"])
    known = np.repeat(mask("#.## #.## #### .###"), 3)
    known[3] = True  # the red of the first hidden pixel
    assert checks(known, config) == [15, 36]
    known[15] = True
    assert checks(known, config) == [15, 36]


def test_particles_agree_up_to_the_first_byte_in_which_any_differs() -> None:
    images = np.zeros((3, 8), np.uint8)
    assert agreed(images, 6) == 6
    images[2, 6] = 1
    assert (agreed(images, 6), agreed(images, 8)) == (6, 6)
    images[1, 2] = 9
    assert agreed(images, 8) == 2
    assert agreed(images[:1], 8) == 8


PARTICLES = 5
CPU = pytest.mark.skipif(not cpu_kernels.available(), reason="the cpu kernel was not compiled")
VARIANTS = ["plain", "histogram", "colour", "strokes", "pixels"]
MASKS = {
    "hole": lambda n: (np.arange(n) < n // 3) | (np.arange(n) > n // 2),
    "every third": lambda n: np.arange(n) % 3 == 1,
}


def by_particles(generator: Generator, paint: GenerateRequest, index: int) -> Fetched:
    """An image of a request whose particles are painted from check to check in the first slots of a generator."""
    slots = np.arange(paint.particles_of(index))
    specs = [paint.image(index, particle) for particle in slots.tolist()]
    prefix = generator.prefill(specs[0]) if specs[0].prefix else None
    generator.place_many(slots.tolist(), specs, [prefix] * len(slots))
    position = prefix.position if prefix else generator.config.first
    assert specs[0].mask is not None
    for check in (*checks(specs[0].mask, generator.config), generator.config.bytes):
        generator.start(slots, (check - position) // generator.config.step_bytes).wait()
        position = check
        group = Groups(slots[None], np.array([check]))
        if check < generator.config.bytes:
            generator.resample(group)
        else:
            generator.choose(group)
    return generator.fetch([0]).wait()


class Case:
    """A model, a request whose images have several particles, and those images, each painted alone."""

    def __init__(self, variant: str, mask: str, backend: str) -> None:
        options = {**small_models.VARIANTS[variant], "height": 6, "width": 5}
        self.model, self.backend = small_models.model(small_models.config(**options)), backend
        config = self.model.config
        known, where = small_models.images(config, 2, seed=3), MASKS[mask](config.bytes)
        self.request = GenerateRequest(
            0, 4, 77, known=tuple(map(bytes, known)), masks=(where.tobytes(),) * 2, particles=PARTICLES
        )
        generator = self.generator(PARTICLES)
        self.expected: dict[int, Finished] = {}
        for index in range(4):
            one = by_particles(generator, self.request, index)
            numbers = (one.bits / config.bytes, one.evidence_bits, one.effective_particles)
            bits, evidence, effective = (float(array[0]) for array in numbers)
            self.expected[index] = Finished(0, index, one.images[0].tobytes(), bits, evidence, effective)
            assert 1 <= effective < PARTICLES
        generator.close()

    def generator(self, slots: int, threads: int = 1, kind: type[Generator] = Generator) -> Generator:
        return kind(self.model, slots, threads, backend=self.backend)

    def check(self, events: Iterable[Event]) -> None:
        its = {event.index: event for event in events if isinstance(event, Finished)}
        assert its == self.expected


CASES = [pytest.param((variant, "every third", "cpu"), marks=CPU) for variant in VARIANTS]
CASES += [("plain", "hole", "eager"), pytest.param(("pixels", "every third", "eager"), marks=pytest.mark.slow)]


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def case(request: pytest.FixtureRequest) -> Case:
    return Case(*request.param)


@pytest.fixture(scope="module")
def plain() -> Case:
    return Case("plain", "every third", "cpu" if cpu_kernels.available() else "eager")


def test_the_engine_paints_an_image_from_check_to_check(case: Case) -> None:
    generator = case.generator(2 * PARTICLES + 1, 2, QueuedGenerator)
    case.check(run_until_idle(Engine(generator), case.request))
    generator.close()


@pytest.mark.parametrize("kind", [Generator, QueuedGenerator])
def test_provisional_bytes_are_those_of_the_first_particle_after_the_final_ones(
    plain: Case, kind: type[Generator], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scanline.model.sampling.stats.tick_length.MAX_STEPS", 4)
    generator = plain.generator(2 * PARTICLES, 1, kind)
    engine = Engine(generator)
    engine.accept(GenerateRequest(**{**vars(plain.request), "stream": True, "provisional": True}))
    sent, provisional, finished = dict.fromkeys(range(4), b""), [], []
    while not engine.idle:
        engine.streams.frames_at = 0.0
        for stream in engine.streams.requests.values():
            stream.frames_at = 0.0
        events = engine.tick()
        finished += [event for event in events if isinstance(event, Finished)]
        for event in (event for event in events if isinstance(event, Pixels)):
            for index, first, data in event.painted:
                assert len(sent[index]) == first
                sent[index] += data
            for index, first, data in event.provisional:
                assert len(sent[index]) == first
                image = sent[index] + data
                provisional.append(image != plain.expected[index].image[: len(image)])
                if kind is Generator:  # a queued one has not come so far, or further
                    (slot,) = (one.slot for one in engine.scheduler.assigned.values() if one.index == index)
                    assert image == generator.image(slot).tobytes()[: engine.scheduler.positions[slot]]
    plain.check(finished)
    assert sent == {index: one.image for index, one in plain.expected.items()}
    assert True in provisional
    generator.close()


def test_particles_without_a_known_byte_after_a_hidden_one_are_one_particle(grey: Transformer) -> None:
    """The bytes, and the slots, are those of an image without particles."""
    known, where = small_models.images(grey.config, 1)[0], np.arange(35) < 12
    found = []
    for particles in (1, 5):
        generator = Generator(grey, 2, threads=1)
        request = GenerateRequest(0, 4, 5, 1.0, (known.tobytes(),), (where.tobytes(),), particles=particles)
        found.append(run_until_idle(Engine(generator), request))
        generator.close()
    assert found[0] == found[1]
    prefix = Generator(grey, 1, threads=1)
    bits = prefix.score(known[None])[0, :12].sum()
    prefix.close()
    for event in found[0]:
        assert isinstance(event, Finished)
        assert (event.evidence_bits, event.effective_particles) == (pytest.approx(bits), 1.0)


def test_an_image_that_completes_nothing_has_no_evidence(engine: Engine) -> None:
    (event,) = run_until_idle(engine, GenerateRequest(0, 1, seed=0))
    assert isinstance(event, Finished)
    assert (event.evidence_bits, event.effective_particles) == (None, None)


@pytest.fixture
def small(plain: Case) -> Iterator[Engine]:
    generator = plain.generator(PARTICLES - 1)
    yield Engine(generator)
    generator.close()


def test_a_request_for_more_particles_than_slots_fails_with_a_sentence_and_others_are_painted(
    small: Engine, plain: Case
) -> None:
    events = run_until_idle(small, plain.request, GenerateRequest(1, 3, seed=0))
    (failed,) = [event for event in events if isinstance(event, Failed)]
    sentence = "This server has 4 slots, and an image of 5 particles needs one for each."
    assert failed == Failed(0, sentence, "too_many_particles")
    assert [event.request for event in events if isinstance(event, Finished)] == [1] * 3


def test_slots_count_particles_and_painted_bytes_count_an_image_once(plain: Case) -> None:
    generator = plain.generator(2 * PARTICLES)
    engine = Engine(generator)
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
    generator.close()


def test_numbers_that_are_not_finite_in_all_particles_fail_the_image_and_in_one_do_not(plain: Case) -> None:
    generator = plain.generator(2 * PARTICLES)
    engine = Engine(generator)
    engine.tick_length.last = (1.0, 1)  # a step a tick
    for spoilt in (1, PARTICLES):
        engine.accept(GenerateRequest(**{**vars(plain.request), "n": 2, "stream": True}))
        while not engine.scheduler.groups:
            engine.tick()
        slots = next(iter(engine.scheduler.groups.values())).slots[-spoilt:]
        generator.pool.known_bits[list(slots)] = float("nan")
        generator.pool.bits[list(slots)] = float("inf")
        ended = [type(event) for event in run_until_idle(engine) if not isinstance(event, Pixels)]
        assert ended == [[Finished, Finished], [Failed]][spoilt > 1]
    generator.close()
