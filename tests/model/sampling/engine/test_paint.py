"""The engine's loop over a real generator: what a GenerateRequest leads to, event by event."""

from dataclasses import replace

import numpy as np
import pytest

from scanline.model.network.transformer import Transformer
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.messages import Cancel, Event, Finished, GenerateRequest, Pixels
from scanline.model.tasks.offline import paint
from tests.support.engine.engine_ticks import run_until_idle

KNOWN = np.random.default_rng(0).integers(0, 256, (2, 35), np.uint8)
TOP = np.arange(35) < 15
HOLE = (np.arange(35) < 5) | (np.arange(35) > 20)  # bytes known after unknown ones


def images(events: list[Event], request: int) -> np.ndarray:
    """[n, N] uint8, by index."""
    found = {event.index: event.image for event in events if isinstance(event, Finished) and event.request == request}
    return np.stack([np.frombuffer(found[index], np.uint8) for index in range(len(found))])


def test_bytes_and_bits_are_those_of_painting_without_an_engine(engine: Engine, grey: Transformer) -> None:
    events = run_until_idle(engine, GenerateRequest(0, 7, seed=11), GenerateRequest(1, 3, seed=12, temperature=0.5))
    for request, alone in ((0, paint(grey, 7, seed=11)), (1, paint(grey, 3, seed=12, temperature=0.5))):
        np.testing.assert_array_equal(images(events, request), alone.images)
        ended = [event for event in events if isinstance(event, Finished) and event.request == request]
        bits = {event.index: event.bits_per_dim for event in ended}
        assert [bits[index] for index in range(len(bits))] == alone.bits_per_dim.tolist()


def test_images_of_which_a_step_takes_longer_than_a_tick_take_turns(
    engine: Engine, grey: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scanline.model.sampling.stats.tick_length.TICK_SECONDS", 1e-12)
    monkeypatch.setattr("scanline.model.sampling.stats.tick_length.LEAST_IMAGES", 2)
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
    monkeypatch.setattr("scanline.model.sampling.stats.tick_length.MOST_STEPS", 4)
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
    monkeypatch.setattr("scanline.model.sampling.stats.tick_length.MOST_STEPS", 4)
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


@pytest.mark.parametrize("mask", [TOP, HOLE], ids=["top", "hole"])
def test_completions_are_those_of_painting_without_an_engine_and_streams_include_known_bytes(
    engine: Engine, grey: Transformer, mask: np.ndarray
) -> None:
    request = GenerateRequest(0, 4, 5, known=(KNOWN[0].tobytes(),), masks=(mask.tobytes(),), stream=True)
    events = run_until_idle(engine, request)
    np.testing.assert_array_equal(images(events, 0), paint(grey, 4, seed=5, known=KNOWN[0], mask=mask).images)
    _, start, data = next(event for event in events if isinstance(event, Pixels)).painted[0]
    assert start == 0
    assert data.startswith(KNOWN[0, : mask.argmin()].tobytes())


def test_several_sources_are_completed_one_after_the_other_replayed_ones_too(engine: Engine) -> None:
    sources, masks = tuple(image.tobytes() for image in KNOWN), (TOP.tobytes(), HOLE.tobytes())
    request = GenerateRequest(0, 6, 5, known=sources, masks=masks)
    painted = images(run_until_idle(engine, request), 0)
    assert (painted[:3, TOP] == KNOWN[0, TOP]).all()
    assert (painted[3:, HOLE] == KNOWN[1, HOLE]).all()
    (finished,) = run_until_idle(engine, replace(request, only=(4,)))
    assert isinstance(finished, Finished)
    assert finished.image == painted[4].tobytes()


def test_a_cancelled_request_has_no_further_events_and_changes_no_byte_of_others(
    engine: Engine, grey: Transformer
) -> None:
    for request in (0, 1):
        engine.accept(GenerateRequest(request, 4, seed=request, stream=True))
    events = engine.tick()
    after = run_until_idle(engine, Cancel(0), GenerateRequest(2, 4, seed=2))
    assert {event.request for event in after} == {1, 2}
    for request in (1, 2):
        np.testing.assert_array_equal(images(events + after, request), paint(grey, 4, seed=request).images)
    assert run_until_idle(engine, Cancel(1)) == [], "the cancel of a finished request is no error"


def test_a_replayed_request_does_only_what_is_missing(engine: Engine, grey: Transformer) -> None:
    events = run_until_idle(engine, GenerateRequest(0, 7, seed=11, stream=True, only=(1, 4, 6)))
    found = {event.index: np.frombuffer(event.image, np.uint8) for event in events if isinstance(event, Finished)}
    assert sorted(found) == [1, 4, 6]
    np.testing.assert_array_equal([found[index] for index in (1, 4, 6)], paint(grey, 7, seed=11).images[[1, 4, 6]])
    assert {index for event in events if isinstance(event, Pixels) for index, _, _ in event.painted} == {1, 4, 6}
