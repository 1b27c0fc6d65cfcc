"""The engine scores images while it paints others."""

from dataclasses import replace

import numpy as np

from scanline.model.network.transformer import Transformer
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import Cancel, Finished, GenerateRequest, Scored, ScoreRequest
from tests.support.engine.engine_ticks import run_until_idle

IMAGES = np.random.default_rng(1).integers(0, 256, (3, 35), np.uint8)
SCORE = ScoreRequest(1, tuple(image.tobytes() for image in IMAGES))


def test_bits_are_those_of_the_model(engine: Engine, grey: Transformer) -> None:
    scored = [np.frombuffer(event.bits) for event in run_until_idle(engine, SCORE) if isinstance(event, Scored)]
    alone = [Generator(grey, 1).score(image[None])[0] for image in IMAGES]
    np.testing.assert_array_equal(scored, alone)


def test_images_are_scored_while_others_are_painted(engine: Engine) -> None:
    events = run_until_idle(engine, GenerateRequest(0, 400, seed=0), SCORE)
    assert isinstance(events[-1], Finished)
    assert [event.index for event in events if isinstance(event, Scored)] == [0, 1, 2]


def test_a_replayed_request_does_only_what_is_missing(engine: Engine, grey: Transformer) -> None:
    (scored,) = run_until_idle(engine, replace(SCORE, only=(2,)))
    assert isinstance(scored, Scored)
    assert scored.index == 2
    np.testing.assert_array_equal(np.frombuffer(scored.bits), Generator(grey, 1).score(IMAGES[2:])[0])


def test_a_cancelled_score_has_no_further_events(engine: Engine) -> None:
    engine.accept(SCORE)
    engine.tick()
    assert run_until_idle(engine, Cancel(SCORE.id)) == []
