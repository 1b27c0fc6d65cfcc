"""Particles in the engine: an image of several is a function of its seed, and what cannot be served fails alone."""

from collections.abc import Iterator
from math import inf

import numpy as np
import pytest

from scanline.kernels import cpu as cpu_kernels
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import Cancel, Event, Failed, Finished, GenerateRequest, Pixels
from tests.support import small_models
from tests.support.engine.engine_ticks import run_until_idle
from tests.support.engine.painted_alone import by_particles
from tests.support.engine.queued_generator import QueuedGenerator

PARTICLES = 5
CPU = pytest.mark.skipif(not cpu_kernels.available(), reason="the cpu kernel was not compiled")
VARIANTS = ["plain", "histogram", "colour", "strokes", "pixels"]
MASKS = {
    "hole": lambda n: (np.arange(n) < n // 3) | (np.arange(n) > n // 2),
    "every third": lambda n: np.arange(n) % 3 == 1,
}


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

    def check(self, events: list[Event], wanted: range | tuple[int, ...] = range(4)) -> None:
        """The images of the request in the order of their indices are those painted alone."""
        its = [event for event in events if isinstance(event, Finished) and event.request == 0]
        assert sorted(its, key=lambda event: event.index) == [self.expected[index] for index in wanted]


CASES = [pytest.param((variant, "every third", "cpu"), marks=CPU) for variant in VARIANTS]
CASES += [("plain", "hole", "eager"), pytest.param(("pixels", "every third", "eager"), marks=pytest.mark.slow)]


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def case(request: pytest.FixtureRequest) -> Case:
    return Case(*request.param)


@pytest.fixture(scope="module")
def plain() -> Case:
    return Case("plain", "every third", "cpu" if cpu_kernels.available() else "eager")


def crowd(count: int, particles: int = 3) -> list[GenerateRequest]:
    """Other clients' requests, with particles and without."""
    known, where = small_models.images(small_models.config(height=6, width=5), 1), MASKS["hole"](30)
    edits = {"known": tuple(map(bytes, known)), "masks": (where.tobytes(),)}
    others = [GenerateRequest(2 * i + 1, 3, i, client=f"client {i}") for i in range(count)]
    return others + [
        GenerateRequest(2 * i + 2, 2, i, **edits, particles=particles, client=f"client {i}") for i in range(count)
    ]


@pytest.mark.parametrize(
    ("slots", "threads", "kind"),
    [(PARTICLES, 1, Generator), (2 * PARTICLES + 1, 2, QueuedGenerator), (64, 1, Generator)],
)
def test_an_image_of_particles_is_a_function_of_its_seed(
    case: Case, slots: int, threads: int, kind: type[Generator]
) -> None:
    generator = case.generator(slots, threads, kind)
    case.check(run_until_idle(Engine(generator), case.request))
    generator.close()


@pytest.mark.parametrize(("slots", "kind"), [(PARTICLES, Generator), (9, QueuedGenerator), (40, Generator)])
def test_it_is_the_same_in_a_crowd_of_requests_that_come_and_go(plain: Case, slots: int, kind: type[Generator]) -> None:
    generator = plain.generator(slots, 2, kind)
    engine = Engine(generator)
    events: list[Event] = []
    for before in crowd(4)[:5]:
        engine.accept(before)
    events += engine.tick()
    engine.accept(plain.request)
    for after in crowd(4)[5:]:
        engine.accept(after)
    events += engine.tick() + engine.tick()
    engine.accept(Cancel(3))
    events += run_until_idle(engine)
    plain.check(events)
    ended = {event.request for event in events if isinstance(event, Finished)}
    assert ended >= {0, 1, 2, 4, 5, 6, 7, 8}
    assert sorted(engine.scheduler.free) == list(range(slots))
    generator.close()


@pytest.mark.parametrize("kind", [Generator, QueuedGenerator])
@pytest.mark.parametrize("sends", [True, False])
def test_what_a_stream_is_sent_never_changes_and_is_the_whole_image_in_the_end(
    plain: Case, sends: bool, kind: type[Generator], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scanline.model.sampling.stats.tick_length.MOST_STEPS", 4)
    generator = plain.generator(2 * PARTICLES, 1, kind)
    engine = Engine(generator)
    engine.accept(GenerateRequest(**{**vars(plain.request), "stream": True}))
    events: list[Event] = []
    while not engine.idle:
        engine.streams.frames_at = 0.0 if sends else inf
        for stream in engine.streams.requests.values():
            stream.frames_at = 0.0
        events += engine.tick()
    plain.check(events)
    sent = dict.fromkeys(range(4), b"")
    pixels = [event for event in events if isinstance(event, Pixels)]
    assert not any(event.provisional for event in pixels)
    frames = [frame for event in pixels for frame in event.painted]
    for index, first, data in frames:
        assert len(sent[index]) == first
        assert data
        sent[index] += data
    assert sent == {index: one.image for index, one in plain.expected.items()}
    assert len(frames) == 4 or sends
    generator.close()


@pytest.mark.parametrize("kind", [Generator, QueuedGenerator])
def test_provisional_bytes_are_those_of_the_first_particle_after_the_final_ones(
    plain: Case, kind: type[Generator], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scanline.model.sampling.stats.tick_length.MOST_STEPS", 4)
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
    plain.check(list(finished))
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
