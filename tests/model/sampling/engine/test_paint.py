"""The engine's loop over a real generator: images that take turns, and how often streams get frames.

That every answer is the one that its request gets alone: test_mixed_requests.py.
"""

from dataclasses import replace

import numpy as np
import pytest

from scanline.model.network.transformer import Transformer
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.messages import Event, Finished, GenerateRequest, Pixels
from scanline.model.tasks.offline import paint
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
