"""The loop of the engine over real generators: turns, frames of streams, and steps of a pixel.

That every answer is the one that its request gets alone: test_mixed_requests.py.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from scanline.model.network.transformer import Transformer
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import Event, Finished, GenerateRequest, ImageSpec, Pixels, StateSnapshot
from scanline.model.tasks.offline import paint
from tests.support import small_models
from tests.support.engine.engine_ticks import run_until_idle

KNOWN = np.random.default_rng(0).integers(0, 256, (2, 35), np.uint8)


def images(events: list[Event], request: int) -> np.ndarray:
    """[n, N] uint8, by index."""
    found = {event.index: event.image for event in events if isinstance(event, Finished) and event.request == request}
    return np.stack([np.frombuffer(found[index], np.uint8) for index in range(len(found))])


def test_images_of_which_a_step_takes_longer_than_a_tick_take_turns(
    engine: Engine, grey: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scanline.model.sampling.stats.tick_length.TICK_SECONDS", 1e-12)
    monkeypatch.setattr("scanline.model.sampling.stats.tick_length.MIN_IMAGES", 2)
    engine.time_shares.overdraft = 1e9
    mask = np.arange(35) > 20
    engine.accept(GenerateRequest(0, 2, seed=11, client="many"))
    completion = GenerateRequest(1, 1, 5, known=(KNOWN[0].tobytes(),), masks=(mask.tobytes(),), particles=3)
    engine.accept(replace(completion, client="one"))
    events, stepped = engine.tick(), []  # the first tick, before which no step was measured, is of all
    for _ in range(4):
        before = engine.scheduler.positions.copy()
        events += engine.tick()
        stepped.append(np.flatnonzero(engine.scheduler.positions > before).tolist())
    (first,), one, (second,) = (image.slots for image in engine.scheduler.assigned.values())
    assert stepped == 2 * [sorted([first, *one]), sorted([second, *one])]
    events += run_until_idle(engine)
    np.testing.assert_array_equal(images(events, 0), paint(grey, 2, seed=11).images)
    np.testing.assert_array_equal(
        images(events, 1), paint(grey, 1, seed=5, known=KNOWN[0], mask=mask, particles=3).images
    )


def test_with_many_streams_an_image_is_sent_in_two_pieces(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scanline.model.sampling.streams.FRAME_SECONDS", 1e9)
    monkeypatch.setattr("scanline.model.sampling.stats.tick_length.MAX_STEPS", 4)
    events = run_until_idle(engine, GenerateRequest(0, 8, seed=3, stream=True))
    streamed: dict[int, list[bytes]] = {index: [] for index in range(8)}
    for event in events:
        if isinstance(event, Pixels):
            for index, _, data in event.painted:
                streamed[index].append(data)
    assert [len(pieces) for pieces in streamed.values()] == [2] * 8
    assert [b"".join(streamed[index]) for index in range(8)] == [image.tobytes() for image in images(events, 0)]


def test_a_request_of_many_images_gets_frames_less_often_and_does_not_slow_others(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scanline.model.sampling.streams.FRAME_SECONDS", 1e-9)
    monkeypatch.setattr("scanline.model.sampling.streams.REQUEST_PACE", 1e13)  # 10,000 seconds for an image
    monkeypatch.setattr("scanline.model.sampling.stats.tick_length.MAX_STEPS", 4)
    many, late = GenerateRequest(0, 3, seed=3, stream=True), GenerateRequest(1, 1, seed=3, stream=True)
    engine.accept(many)
    events = engine.tick()
    assert [len(event.painted) for event in events if isinstance(event, Pixels)] == [3]
    assert not any(isinstance(event, Pixels) for event in engine.tick())
    engine.accept(late)
    (first,) = (event for event in engine.tick() if isinstance(event, Pixels))
    assert first.request == late.id
    events += run_until_idle(engine)
    pieces = [event for event in events if isinstance(event, Pixels) and event.request == many.id]
    assert len(pieces) == 2  # the first and the last bytes of its images, which are painted together


MODEL: Transformer = small_models.model(small_models.config(**small_models.VARIANTS["waves of pixels"]))
LENGTH = MODEL.config.bytes
KNOWN_PIXELS = small_models.images(MODEL.config, 2)
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
def pixel_engine() -> Iterator[Engine]:
    """Five slots, so that some images wait for one."""
    generator = Generator(MODEL, 5, threads=1)
    yield Engine(generator)
    generator.close()


def test_streams_get_whole_pixels(pixel_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scanline.model.sampling.stats.tick_length.MAX_STEPS", 3)
    monkeypatch.setattr("scanline.model.sampling.streams.FRAME_SECONDS", 0.0)
    events = run_until_idle(pixel_engine, GenerateRequest(0, 8, seed=3, stream=True))
    frames = [frame for event in events if isinstance(event, Pixels) for frame in event.painted]
    assert len(frames) > 8
    assert all(first % 3 == 0 and len(data) in (3, 6, 9) for _, first, data in frames)


@pytest.mark.parametrize("mask", PIXEL_MASKS)
def test_known_bytes_are_kept_and_prefilled_as_far_as_they_are_whole_pixels(pixel_engine: Engine, mask: str) -> None:
    where, prefilled = PIXEL_MASKS[mask]
    request = GenerateRequest(0, 6, 5, known=(KNOWN_PIXELS[0].tobytes(),), masks=(where.tobytes(),))
    for event in run_until_idle(pixel_engine, request):
        assert isinstance(event, Finished)
        np.testing.assert_array_equal(np.frombuffer(event.image, np.uint8)[where], KNOWN_PIXELS[0][where])
    stats = pixel_engine.stats()
    assert stats.known_bytes == 6 * prefilled
    assert stats.painted_bytes == 6 * (LENGTH - prefilled)


def test_snapshots_are_the_state_after_whole_pixels(pixel_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scanline.model.sampling.stats.tick_length.MAX_STEPS", 4)
    events = run_until_idle(pixel_engine, GenerateRequest(0, 3, seed=2, snapshot=(1, 0)))
    found = [event for event in events if isinstance(event, StateSnapshot)]
    assert len(found) >= 5
    alone = Generator(MODEL, 1, threads=1)
    alone.place(0, ImageSpec(2, 0))
    for snapshot in found:
        assert snapshot.position % 3 == 0
        alone.advance((snapshot.position - int(alone.positions()[0])) // 3)
        s, z = alone.state(0, 1, 0).wait()
        assert (s.tobytes(), z.tobytes()) == (snapshot.s, snapshot.z)
    alone.close()
