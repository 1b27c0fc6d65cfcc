"""The engine's loop over a model whose step is a pixel of three bytes: streams, snapshots and completions."""

from collections.abc import Iterator

import numpy as np
import pytest

from scanline.model.network.transformer import Transformer
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import (
    Event,
    Finished,
    GenerateRequest,
    ImageSpec,
    Pixels,
    StateSnapshot,
)
from scanline.model.tasks.offline import paint
from tests.support import small_models
from tests.support.engine.engine_ticks import run_until_idle

MODEL: Transformer = small_models.model(small_models.config(**small_models.VARIANTS["waves of pixels"]))
LENGTH = MODEL.config.bytes
KNOWN = small_models.images(MODEL.config, 2)
PLACE = np.arange(LENGTH)
MASKS = {  # known bytes -> how many of them are prefilled: whole pixels at the start
    "two rows": (PLACE < 30, 30),
    "into a pixel": (PLACE < 14, 12),
    "less than a pixel": (PLACE < 2, 0),
    "green": (PLACE % 3 == 1, 0),
    "the end": (PLACE >= 30, 0),
    "all": (PLACE >= 0, 60),
}


@pytest.fixture
def engine() -> Iterator[Engine]:
    """Five slots, so that some images wait for one."""
    generator = Generator(MODEL, 5, threads=1)
    yield Engine(generator)
    generator.close()


def finished(events: list[Event]) -> dict[int, tuple[bytes, float]]:
    return {event.index: (event.image, event.bits_per_dim) for event in events if isinstance(event, Finished)}


def expected(count: int, seed: int, known: np.ndarray | None = None, mask: np.ndarray | None = None):
    painted = paint(MODEL, count, seed=seed, known=known, mask=mask)
    return {i: (painted.images[i].tobytes(), painted.bits_per_dim[i]) for i in range(count)}


def test_streams_get_whole_pixels_that_concatenate_to_the_images(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scanline.model.sampling.stats.tick_length.MOST_STEPS", 3)
    monkeypatch.setattr("scanline.model.sampling.streams.FRAME_SECONDS", 0.0)
    events = run_until_idle(engine, GenerateRequest(0, 8, seed=3, stream=True))
    assert finished(events) == expected(8, seed=3)
    streamed = dict.fromkeys(range(8), b"")
    for index, first, data in (frame for event in events if isinstance(event, Pixels) for frame in event.painted):
        assert first == len(streamed[index])
        assert len(data) in (3, 6, 9)
        streamed[index] += data
    assert streamed == {index: image for index, (image, _) in expected(8, seed=3).items()}


@pytest.mark.parametrize("mask", MASKS)
def test_completions_keep_known_bytes_wherever_they_lie_in_a_pixel(engine: Engine, mask: str) -> None:
    where, prefilled = MASKS[mask]
    request = GenerateRequest(0, 6, 5, known=(KNOWN[0].tobytes(),), masks=(where.tobytes(),), stream=True)
    events = run_until_idle(engine, request)
    assert finished(events) == expected(6, 5, KNOWN[0], where)
    for image, _ in finished(events).values():
        np.testing.assert_array_equal(np.frombuffer(image, np.uint8)[where], KNOWN[0][where])
    stats = engine.stats()
    assert stats.known_bytes == 6 * prefilled
    assert stats.painted_bytes == 6 * (LENGTH - prefilled)


def test_a_known_byte_moves_the_later_ones_of_its_pixel_and_not_the_earlier_ones() -> None:
    """Of the last pixel: its red does not depend on whether its green is known; its blue follows the green it has."""
    free = paint(MODEL, 40, seed=8).images
    greens = []
    for value in (0, 255):
        known = np.full(LENGTH, value, np.uint8)
        painted = paint(MODEL, 40, seed=8, known=known, mask=PLACE == LENGTH - 2).images
        np.testing.assert_array_equal(painted[:, : LENGTH - 2], free[:, : LENGTH - 2])
        assert (painted[:, LENGTH - 2] == value).all()
        greens.append(painted[:, LENGTH - 1])
    assert (greens[0] != greens[1]).any()


def test_snapshots_are_the_state_after_whole_pixels(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scanline.model.sampling.stats.tick_length.MOST_STEPS", 4)
    events = run_until_idle(engine, GenerateRequest(0, 3, seed=2, snapshot=(1, 0)))
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
