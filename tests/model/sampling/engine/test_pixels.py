"""The engine's loop over a model whose step is a pixel of three bytes: streams, snapshots and prefixes of pixels."""

from collections.abc import Iterator

import numpy as np
import pytest

from scanline.model.network.transformer import Transformer
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import Finished, GenerateRequest, ImageSpec, Pixels, StateSnapshot
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


def test_streams_get_whole_pixels(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scanline.model.sampling.stats.tick_length.MAX_STEPS", 3)
    monkeypatch.setattr("scanline.model.sampling.streams.FRAME_SECONDS", 0.0)
    events = run_until_idle(engine, GenerateRequest(0, 8, seed=3, stream=True))
    frames = [frame for event in events if isinstance(event, Pixels) for frame in event.painted]
    assert len(frames) > 8
    assert all(first % 3 == 0 and len(data) in (3, 6, 9) for _, first, data in frames)


@pytest.mark.parametrize("mask", MASKS)
def test_known_bytes_are_kept_and_prefilled_as_far_as_they_are_whole_pixels(engine: Engine, mask: str) -> None:
    where, prefilled = MASKS[mask]
    request = GenerateRequest(0, 6, 5, known=(KNOWN[0].tobytes(),), masks=(where.tobytes(),))
    for event in run_until_idle(engine, request):
        assert isinstance(event, Finished)
        np.testing.assert_array_equal(np.frombuffer(event.image, np.uint8)[where], KNOWN[0][where])
    stats = engine.stats()
    assert stats.known_bytes == 6 * prefilled
    assert stats.painted_bytes == 6 * (LENGTH - prefilled)


def test_snapshots_are_the_state_after_whole_pixels(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scanline.model.sampling.stats.tick_length.MAX_STEPS", 4)
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
