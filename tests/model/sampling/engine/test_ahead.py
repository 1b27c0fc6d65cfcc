"""The engine over a backend that paints ahead: the same images in fewer passes. Particles wait for
each other at their checks, and a client pays for the steps that were painted.
"""

import numpy as np
import pytest

from scanline.model import zoo
from scanline.model.formats.checkpoint import load_model
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.base.messages import (
    Cancel,
    Finished,
    GenerateRequest,
    Pixels,
    StateSnapshot,
)
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.kinds.image_spec import ImageSpec
from tests.support.engine.engine_ticks import of_kind, run_until_idle
from tests.support.engine.queued_generator import LateGenerator, QueuedGenerator
from tests.support.kernels.native import NATIVE

pytestmark = NATIVE
TICKS = "scanline.model.sampling.stats.tick_length"
ROWS = np.arange(784) // 28


class Ahead(Generator):
    """Guesses as far as it may, whatever passes cost on this machine."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.backend.widest = 16


class LateAhead(LateGenerator, Ahead):
    """As a GPU that paints ahead."""


KINDS = pytest.mark.parametrize("kind", [Ahead, LateAhead])


@pytest.fixture(scope="module")
def digits():
    return load_model(zoo.find("mnist-small"), "cpu")


@pytest.fixture(scope="module")
def digit(digits):
    (event,), _ = painted(Ahead, digits, GenerateRequest(0, 1, 3, label=8))
    return event.image


def painted(kind, model, request):
    engine = Engine(kind(model, 4, threads=1))
    events = run_until_idle(engine, request)
    images = of_kind(events, Finished)
    return sorted(images, key=lambda event: event.index), engine.stats()


@KINDS
@pytest.mark.parametrize("label", [0, 4])
def test_images_are_those_of_single_steps_in_fewer_passes(digits, label, kind):
    request = GenerateRequest(0, 3, 5, label=label, guidance=2.0 if label else 1.0)
    ahead, counted = painted(kind, digits, request)
    steps, counted_alone = painted(QueuedGenerator, digits, request)
    assert ahead == steps
    assert counted.painted_bytes == counted_alone.painted_bytes
    assert counted.steps < counted_alone.steps / 1.3


@pytest.mark.parametrize("hidden", [ROWS < 14, (ROWS > 5) & (ROWS < 20)])
def test_known_bytes_behind_hidden_ones_are_guesses_that_are_right(digits, digit, hidden):
    request = GenerateRequest(0, 1, 9, (digit,), ((~hidden).tobytes(),))
    ahead, counted = painted(Ahead, digits, request)
    steps, counted_alone = painted(QueuedGenerator, digits, request)
    assert ahead == steps
    assert counted.steps < counted_alone.steps / 2


@KINDS
def test_particles_wait_for_each_other_at_their_checks(digits, digit, kind):
    known = (ROWS % 7 > 3).tobytes()
    request = GenerateRequest(0, 1, 9, (digit,), (known,), particles=4)
    ahead, _ = painted(kind, digits, request)
    assert ahead == painted(QueuedGenerator, digits, request)[0]


def test_what_is_computed_and_guessed_is_counted(digits):
    _, counted = painted(Ahead, digits, GenerateRequest(0, 1, 5))
    assert counted.steps <= counted.computed_rows
    assert 784 <= counted.computed_rows < 784 * 1.2
    assert 0 < counted.wrong_guesses < 40
    _, counted = painted(QueuedGenerator, digits, GenerateRequest(0, 1, 5))
    assert (counted.computed_rows, counted.wrong_guesses) == (784, 0)


def test_of_two_clients_each_pays_for_the_steps_that_were_painted(digits, monkeypatch):
    engine = Engine(Ahead(digits, 2, threads=1))
    noise = np.random.default_rng(0).integers(0, 256, 784, np.uint8).tobytes()
    every_other = (np.arange(784) % 2 == 1).tobytes()  # what lies between has no guess
    engine.accept(GenerateRequest(0, 1, 5, client="digit"))
    engine.accept(GenerateRequest(1, 1, 5, (noise,), (every_other,), client="noise"))
    paid = []
    monkeypatch.setattr(engine.time_shares, "spent", lambda seconds, rows: paid.append(rows))
    monkeypatch.setattr(f"{TICKS}.LONG_TICK_SECONDS", 0.0)  # so that there are many ticks
    of_both = []
    while not engine.idle:
        slots = {image.client: image.slot for image in engine.scheduler.assigned.values()}
        before = engine.scheduler.positions.copy()
        engine.tick()
        slots |= {image.client: image.slot for image in engine.scheduler.assigned.values()}
        moved = engine.scheduler.positions - before
        if len(slots) == 2:
            of_both.append({client: int(moved[slot]) for client, slot in slots.items()})
    of_both_paid = [rows for rows in paid if len(rows) == 2]
    for rows, steps in zip(of_both_paid, of_both, strict=True):
        assert rows["digit"] * steps["noise"] == rows["noise"] * steps["digit"]
    assert sum(rows["digit"] for rows in of_both) > sum(rows["noise"] for rows in of_both)


@pytest.fixture(scope="module")
def late_events(digits):
    """Of four images at a time of two requests, one of which is cancelled and followed by a third."""
    engine = Engine(LateAhead(digits, 4, threads=1))
    engine.accept(GenerateRequest(0, 5, 5, stream=True, snapshot=(0, 1)))
    engine.accept(GenerateRequest(1, 2, 6, client="other"))
    events = []
    for _ in range(5):
        events += engine.tick()
    engine.accept(Cancel(1))
    events += run_until_idle(engine, GenerateRequest(2, 1, 7, client="other"))
    return events


def test_where_positions_are_late_slots_get_the_next_image(digits, late_events):
    images = of_kind(late_events, Finished)
    of_request = [event for event in images if event.request == 0]
    of_other = [event for event in images if event.request == 2]
    assert len(images) == len(of_request) + len(of_other)
    of_request.sort(key=lambda event: event.index)
    assert of_request == painted(Ahead, digits, GenerateRequest(0, 5, 5))[0]
    assert of_other == painted(Ahead, digits, GenerateRequest(2, 1, 7))[0]


def test_where_positions_are_late_streams_get_what_is_painted(late_events):
    streamed = dict.fromkeys(range(5), b"")
    for event in of_kind(late_events, Pixels):
        for index, first, pixels in event.painted:
            assert first == len(streamed[index])
            streamed[index] += pixels
    finished = of_kind(late_events, Finished)
    images = {event.index: event.image for event in finished if event.request == 0}
    assert streamed == images


def test_where_positions_are_late_a_snapshot_has_that_of_its_state(digits, late_events):
    snapshots = of_kind(late_events, StateSnapshot)
    assert len(snapshots) > 2
    snapshot = snapshots[len(snapshots) // 2]
    alone = Generator(digits, 1, threads=1)
    alone.place(0, ImageSpec(seed=5, index=0))
    alone.step(np.arange(1), snapshot.position).wait()
    s, z = alone.state(0, 0, 1).wait()
    assert snapshot.s == s.tobytes()
    assert snapshot.z == z.tobytes()
