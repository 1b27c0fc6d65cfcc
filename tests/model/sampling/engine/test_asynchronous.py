"""A device that works on its own gets the next steps before the last ones have ended, and is timed by itself."""

from collections.abc import Iterator

import numpy as np
import pytest

from scanline.model.backends.pending import Pending
from scanline.model.backends.slots import SlotPool
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.messages import GenerateRequest, Scored, ScoreRequest
from scanline.model.sampling.prefill_state import PrefillState
from tests.support import small_models
from tests.support.engine.engine_ticks import run_until_idle
from tests.support.engine.queued_generator import QueuedGenerator
from tests.support.tiny import GREY

SLOTS = 5


@pytest.fixture
def generator(grey: Transformer) -> Iterator[QueuedGenerator]:
    generator = QueuedGenerator(grey, SLOTS, threads=1)
    yield generator
    generator.close()


def test_steps_are_started_before_the_last_ones_are_waited_for(
    generator: QueuedGenerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    order, start = [], generator.start

    def recorded(slots: np.ndarray, steps: int) -> Pending[float]:
        number = sum(name == "start" for name, _ in order)
        order.append(("start", number))
        seconds = start(slots, steps)

        def ended() -> float:
            order.append(("end", number))
            return seconds.wait()

        return Pending(ended)

    monkeypatch.setattr(generator, "start", recorded)
    monkeypatch.setattr("scanline.model.sampling.stats.tick_length.MAX_STEPS", 8)
    monkeypatch.setattr("scanline.model.sampling.stats.tick_length.LONG_TICK_SECONDS", 0)
    run_until_idle(Engine(generator), GenerateRequest(0, 3 * SLOTS, seed=0))
    starts = [at for at, (name, _) in enumerate(order) if name == "start"]
    assert len(starts) >= 6
    for number, at in enumerate(starts[1:]):
        assert order.index(("end", number)) > at


def test_a_step_s_time_is_the_device_s(generator: QueuedGenerator, monkeypatch: pytest.MonkeyPatch) -> None:
    advance = generator.backend.advance

    def timed(pool: SlotPool, slots: np.ndarray, steps: int) -> Pending[float]:
        advance(pool, slots, steps).wait()
        return Pending.ended(0.25)

    monkeypatch.setattr(generator.backend, "advance", timed)
    engine = Engine(generator)
    run_until_idle(engine, GenerateRequest(0, 2, seed=0))
    stats = engine.stats()
    ticks = stats.step_seconds.sum / 0.25
    assert ticks == pytest.approx(round(ticks))
    assert ticks >= 2
    assert engine.tick_length.last[0] >= 0.25 / 35


def test_the_device_has_steps_to_do_while_the_results_of_reads_are_waited_for(
    generator: QueuedGenerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued: list[int] = []
    run = generator._run

    def recorded(prefill: PrefillState, start: int, stop: int) -> Pending[float]:
        seconds = run(prefill, start, stop)

        def ended() -> float:
            result = seconds.wait()
            queued.append(len(generator.queue))
            return result

        return Pending(ended)

    images = small_models.images(GREY, 4)
    expected = generator.score(images)
    monkeypatch.setattr(generator, "_run", recorded)
    monkeypatch.setattr("scanline.model.sampling.stats.tick_length.MAX_STEPS", 8)
    engine = Engine(generator)
    engine.accept(GenerateRequest(0, 3 * SLOTS, seed=0))
    engine.tick()
    request = ScoreRequest(1, tuple(image.tobytes() for image in images))
    events = run_until_idle(engine, request)
    found = {event.index: event.bits for event in events if isinstance(event, Scored)}
    assert found == {index: bits.tobytes() for index, bits in enumerate(expected)}
    assert queued[0] > 0, "the steps of the tick that started the read"
