"""The statistics of an engine: every byte is counted once, however its request ends."""

import pytest

from scanline.model.sampling.engine import Engine
from scanline.model.sampling.messages import Cancel, GenerateRequest, ScoreRequest, Stats
from scanline.model.sampling.stats.histogram import Histogram
from tests.support.engine.engine_ticks import run_until_idle

KNOWN = bytes(range(35))
TOP = bytes(i < 12 for i in range(35))


def work(stats: Stats) -> tuple[int, int, int, int]:
    """Requests that run and wait, images that run and wait."""
    return stats.requests_running, stats.requests_waiting, stats.images_running, stats.images_waiting


def test_accepted_requests_wait_until_the_next_tick_puts_images_into_slots(engine: Engine) -> None:
    first = engine.stats()
    for request in range(6):
        engine.accept(GenerateRequest(request, 2, seed=0))
    assert work(engine.stats()) == (0, 6, 0, 12)
    engine.tick()
    assert work(engine.stats()) == (5, 1, 5, 7)
    engine.accept(ScoreRequest(6, (KNOWN, KNOWN)))
    assert work(engine.stats()) == (5, 2, 5, 9)
    assert first == Stats(), "stats are not a copy"


def test_at_the_end_nothing_is_running_or_kept_and_every_byte_was_counted_once(engine: Engine) -> None:
    completion = GenerateRequest(1, 3, seed=0, known=(KNOWN,), masks=(TOP,))
    run_until_idle(engine, GenerateRequest(0, 12, seed=0), completion, ScoreRequest(2, (KNOWN,)))
    stats = engine.stats()
    assert work(stats) == (0, 0, 0, 0)
    assert (stats.painted_bytes, stats.known_bytes) == (12 * 35 + 3 * 23, 3 * 12)
    assert not engine.recorder.unpainted


def test_only_the_painted_bytes_of_a_cancelled_image_are_counted(engine: Engine) -> None:
    engine.step_seconds = 1.0  # long steps: one a tick
    engine.accept(GenerateRequest(0, 2, seed=0))
    engine.tick()
    engine.accept(Cancel(0))
    engine.tick()
    assert engine.stats().painted_bytes == 2 * int(engine.stats().steps)


def test_a_failed_tick_leaves_nothing_running(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(slots: object, steps: int) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(engine.generator, "start", broken)
    run_until_idle(engine, GenerateRequest(0, 12, seed=0))
    assert work(engine.stats()) == (0, 0, 0, 0)
    assert sum(engine.stats().first_pixel.counts) == 0


def test_values_fall_under_the_bound_that_they_do_not_exceed() -> None:
    histogram = Histogram((1, 2))
    for value in (0.5, 1, 2, 3):
        histogram.add(value, times=2)
    assert (histogram.counts, histogram.sum) == ([4, 2, 2], 13)
