"""The loop of the engine over real generators: requests, turns, frames of streams, and
steps of a pixel. A device that works on its own gets the next steps before the last ones
have ended, and is timed by itself.

That every answer is the one that its request gets alone: test_batch_composition.py.
"""

import numpy as np
import pytest

from scanline.model.backends.pending import Pending
from scanline.model.base.sampling_options import DrawnLabel
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.base.messages import (
    GenerateRequest,
    Pixels,
    Scored,
    ScoreRequest,
    StateSnapshot,
)
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.kinds.image_spec import ImageSpec
from tests.support import small_models
from tests.support.engine.engine_ticks import images_of, of_kind, run_until_idle
from tests.support.engine.queued_generator import QueuedGenerator

TICKS = "scanline.model.sampling.stats.tick_length"
STREAMS = "scanline.model.sampling.streams"


def test_images_take_turns_where_a_step_is_longer_than_a_tick(engine, monkeypatch):
    monkeypatch.setattr(f"{TICKS}.TICK_SECONDS", 1e-12)
    monkeypatch.setattr(f"{TICKS}.MIN_IMAGES", 2)
    engine.time_shares.overdraft = 1e9
    engine.accept(GenerateRequest(0, 2, seed=11, client="many"))
    completed = {"known": (bytes(35),), "masks": ((np.arange(35) > 20).tobytes(),), "particles": 3}
    engine.accept(GenerateRequest(1, 1, 5, **completed, client="one"))
    engine.tick()  # the first tick, before which no step was measured, is of all
    stepped = []
    for _ in range(4):
        before = engine.scheduler.positions.copy()
        engine.tick()
        stepped.append(np.flatnonzero(engine.scheduler.positions > before).tolist())
    (first,), one, (second,) = (image.slots for image in engine.scheduler.assigned.values())
    assert stepped == 2 * [sorted([first, *one]), sorted([second, *one])]


def test_with_many_streams_an_image_is_sent_in_two_pieces(engine, monkeypatch):
    monkeypatch.setattr(f"{STREAMS}.FRAME_SECONDS", 1e9)
    monkeypatch.setattr(f"{TICKS}.MAX_STEPS", 4)
    events = run_until_idle(engine, GenerateRequest(0, 8, seed=3, stream=True))
    frames = [frame for event in of_kind(events, Pixels) for frame in event.painted]
    streamed = [[data for index, _, data in frames if index == image] for image in range(8)]
    assert [len(pieces) for pieces in streamed] == [2] * 8
    assert b"".join(piece for pieces in streamed for piece in pieces) == images_of(events)


def test_a_request_of_many_images_gets_fewer_frames_alone(engine, monkeypatch):
    monkeypatch.setattr(f"{STREAMS}.FRAME_SECONDS", 1e-9)
    monkeypatch.setattr(f"{STREAMS}.REQUEST_PACE", 1e13)  # 10,000 seconds for an image
    monkeypatch.setattr(f"{TICKS}.MAX_STEPS", 4)
    many = GenerateRequest(0, 3, seed=3, stream=True)
    late = GenerateRequest(1, 1, seed=3, stream=True)
    engine.accept(many)
    events = engine.tick()
    assert [len(event.painted) for event in of_kind(events, Pixels)] == [3]
    assert not of_kind(engine.tick(), Pixels)
    engine.accept(late)
    (first,) = of_kind(engine.tick(), Pixels)
    assert first.request == late.id
    events += run_until_idle(engine)
    pieces = [event for event in of_kind(events, Pixels) if event.request == many.id]
    # the first and the last bytes of its images, which are painted together
    assert len(pieces) == 2


MODEL = small_models.model_of("waves of pixels")
LENGTH = MODEL.config.bytes
KNOWN_PIXELS = small_models.images(MODEL.config, 1)[0]
PLACE = np.arange(LENGTH)
PIXEL_MASKS = {  # known bytes -> how many of them are prefilled: whole pixels at the start
    "two rows": (PLACE < 30, 30),
    "into a pixel": (PLACE < 14, 12),
    "less than a pixel": (PLACE < 2, 0),
    "green": (PLACE % 3 == 1, 0),
    "the end": (PLACE >= 30, 0),
    "all": (PLACE >= 0, 60),
}


@pytest.fixture
def pixel_engine():
    """Five slots, so that some images wait for one."""
    return Engine(Generator(MODEL, 5, threads=1))


def test_streams_get_whole_pixels(pixel_engine, monkeypatch):
    monkeypatch.setattr(f"{TICKS}.MAX_STEPS", 3)
    monkeypatch.setattr(f"{STREAMS}.FRAME_SECONDS", 0.0)
    events = run_until_idle(pixel_engine, GenerateRequest(0, 8, seed=3, stream=True))
    frames = [frame for event in of_kind(events, Pixels) for frame in event.painted]
    assert len(frames) > 8
    assert all(first % 3 == 0 and len(data) in (3, 6, 9) for _, first, data in frames)


@pytest.mark.parametrize("mask", PIXEL_MASKS)
def test_known_bytes_are_kept_and_prefilled_as_far_as_they_are_whole_pixels(pixel_engine, mask):
    where, prefilled = PIXEL_MASKS[mask]
    request = GenerateRequest(0, 6, 5, known=(KNOWN_PIXELS.tobytes(),), masks=(where.tobytes(),))
    images = np.frombuffer(images_of(run_until_idle(pixel_engine, request)), np.uint8).reshape(
        6, LENGTH
    )
    assert (images[:, where] == KNOWN_PIXELS[where]).all()
    stats = pixel_engine.stats()
    assert stats.known_bytes == 6 * prefilled
    assert stats.painted_bytes == 6 * (LENGTH - prefilled)


def test_snapshots_are_the_state_after_whole_pixels(pixel_engine, monkeypatch):
    monkeypatch.setattr(f"{TICKS}.MAX_STEPS", 4)
    events = run_until_idle(pixel_engine, GenerateRequest(0, 3, seed=2, snapshot=(1, 0)))
    found = of_kind(events, StateSnapshot)
    assert len(found) >= 5
    alone = Generator(MODEL, 1, threads=1)
    alone.place(0, ImageSpec(2, 0))
    for snapshot in found:
        assert snapshot.position % 3 == 0
        alone.advance((snapshot.position - int(alone.positions()[0])) // 3)
        s, z = alone.state(0, 1, 0).wait()
        assert (s.tobytes(), z.tobytes()) == (snapshot.s, snapshot.z)


SLOTS = 5


@pytest.fixture
def generator(grey):
    return QueuedGenerator(grey, SLOTS, threads=1)


def test_steps_start_before_the_last_ones_end(generator, monkeypatch):
    order = []
    step = generator.step

    def recorded(slots, steps):
        number = sum(name == "start" for name, _ in order)
        order.append(("start", number))
        seconds = step(slots, steps)

        def ended():
            order.append(("end", number))
            return seconds.wait()

        return Pending(ended)

    monkeypatch.setattr(generator, "step", recorded)
    monkeypatch.setattr(f"{TICKS}.MAX_STEPS", 8)
    monkeypatch.setattr(f"{TICKS}.LONG_TICK_SECONDS", 0)
    run_until_idle(Engine(generator), GenerateRequest(0, 3 * SLOTS, seed=0))
    starts = [at for at, (name, _) in enumerate(order) if name == "start"]
    assert len(starts) >= 6
    for number, at in enumerate(starts[1:]):
        assert order.index(("end", number)) > at


def test_a_step_s_time_is_the_device_s(generator, monkeypatch):
    advance = generator.backend.advance

    def timed(pool, slots, steps):
        advance(pool, slots, steps).wait()
        return Pending.ended(0.25)

    monkeypatch.setattr(generator.backend, "advance", timed)
    engine = Engine(generator)
    run_until_idle(engine, GenerateRequest(0, 2, seed=0))
    ticks = engine.stats().step_seconds.sum / 0.25
    assert ticks == pytest.approx(round(ticks))
    assert ticks >= 2
    assert engine.tick_length.last[0] >= 0.25 / 35


def test_the_device_has_steps_to_do_while_the_results_of_reads_are_waited_for(
    generator, monkeypatch
):
    queued = []
    run = generator.run_prefill

    def recorded(prefill, steps):
        seconds = run(prefill, steps)

        def ended():
            result = seconds.wait()
            queued.append(len(generator.queue))
            return result

        return Pending(ended)

    images = small_models.images(small_models.GREY, 4)
    expected = generator.score(images)
    monkeypatch.setattr(generator, "run_prefill", recorded)
    monkeypatch.setattr(f"{TICKS}.MAX_STEPS", 8)
    engine = Engine(generator)
    engine.accept(GenerateRequest(0, 3 * SLOTS, seed=0))
    engine.tick()
    request = ScoreRequest(1, tuple(image.tobytes() for image in images))
    found = {event.index: event.bits for event in of_kind(run_until_idle(engine, request), Scored)}
    assert found == {index: bits.tobytes() for index, bits in enumerate(expected)}
    assert queued[0] > 0, "the steps of the tick that started the read"


def completion(*masks, images=None, particles=16):
    """Of images of known bytes "1" and hidden ones "0"."""
    known = tuple(bytes([10 + i] * len(mask)) for i, mask in enumerate(masks))
    held = tuple(bytes(int(byte) for byte in mask) for mask in masks)
    return GenerateRequest(
        0, images or len(masks), 5, known=known, masks=held, label=2, particles=particles
    )


@pytest.mark.parametrize(
    ("mask", "prefix", "particles"),
    [
        ("000000", 0, 1),
        ("111111", 6, 1),
        ("111000", 3, 1),
        ("111001", 3, 16),
        ("010101", 0, 16),
        ("101000", 1, 16),
    ],
)
def test_the_prefix_ends_and_particles_begin_where_a_hidden_byte_stands(mask, prefix, particles):
    """The known bytes before the first hidden one; particles where a known byte follows it."""
    assert (completion(mask).image(0).prefix, completion(mask).image(0).particles) == (
        prefix,
        particles,
    )
    assert completion(mask, particles=1).image(0).particles == 1


def test_images_without_known_bytes_have_one_particle():
    request = GenerateRequest(0, 3, 5, particles=64, label=1)
    assert [request.image(index).particles for index in range(3)] == [1] * 3
    spec = request.image(2)
    assert (spec.seed, spec.index, spec.label, spec.particle, spec.particles) == (5, 2, 1, 0, 1)


def test_particles_are_of_one_image_and_differ_in_their_number_alone():
    request = completion("1001", "1100", images=4, particles=3)
    assert [request.image(index).particles for index in range(4)] == [3, 3, 1, 1]
    assert (request.slots, request.shard((0, 3)).slots) == (8, 4)
    assert GenerateRequest(0, 3, 5, label=1, guidance=2.0).slots == 6
    specs = request.kind_of(1).specs(request.image(1))
    assert [spec.particle for spec in specs] == [0, 1, 2]
    for spec in specs:
        assert (spec.seed, spec.index, spec.label, spec.particles, spec.prefix) == (5, 1, 2, 3, 1)
        np.testing.assert_array_equal(spec.known, [10] * 4)
    last = request.image(3)
    assert (last.particles, last.label, last.known.tolist()) == (1, 2, [11] * 4)
    assert request.shard((3,)).image(3).prefix == last.prefix == 2


def test_shards_keep_labels_and_particles():
    shard = completion("1001", "1100", images=4, particles=3).shard((1,))
    assert (shard.label, shard.particles, shard.image(1).particles) == (2, 3, 3)
    drawn = GenerateRequest(0, 9, 5, label=DrawnLabel(3))
    assert {drawn.image(index).label for index in range(9)} == {1, 2, 3}
    assert [drawn.shard((1, 6)).image(index).label for index in (1, 6)] == [
        drawn.label_of(1),
        drawn.label_of(6),
    ]
    scores = ScoreRequest(0, (b"a", b"b", b"c"), labels=(3, 0, 1), tolerances=(0, 9, 8))
    assert [scores.shard((1, 2)).label_of(index) for index in (1, 2)] == [0, 1]
    assert [scores.shard((1, 2)).tolerance_of(index) for index in (1, 2)] == [9, 8]
    assert (
        ScoreRequest(0, (b"a", b"b")).label_of(1)
        == ScoreRequest(0, (b"a", b"b")).tolerance_of(1)
        == 0
    )
