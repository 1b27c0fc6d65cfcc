"""No piece of work stops all painting: a tick in which anything is read is not much longer than an
ordinary one, with a model of the paper's size."""

import time
from dataclasses import replace

import pytest
import torch

from scanline.model.base.state import State
from scanline.model.network.class_head import ClassHead, FeatureShape
from scanline.model.network.class_reading import READ_STEPS
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.base.messages import (
    Cancel,
    Failed,
    GenerateRequest,
    ScoreRequest,
    StepRange,
)
from scanline.model.sampling.engine import Engine
from scanline.model.training.presets import PRESETS
from tests.support import small_models
from tests.support.engine.engine_ticks import of_kind
from tests.support.kernels.native import NATIVE

pytestmark = NATIVE

PAPER = replace(
    PRESETS["cifar10"].model,
    height=12,  # fewer steps, each as costly
    classes=(("cat",), ("dog",)),
)
LENGTH = PAPER.bytes
IMAGE = small_models.images(PAPER, 1)[0].tobytes()
LAST_ROW = 96  # bytes
BEGINNING = b"\1" * (LENGTH - LAST_ROW)
PREFIX = BEGINNING + b"\0" * LAST_ROW
HOLES = BEGINNING + b"\0\0\0\1\1\1" * (LAST_ROW // 6)
LAST_STEPS = StepRange(8, 0, LENGTH - 100, LENGTH)

READINGS = {
    "score": {},
    "coded": {"coded": True},
    "inspected": {"inspected": LAST_STEPS},
    "classified": {"classified": True},
    "classified, with bits": {
        "labels": (0, 1, 2),
        "classified": True,
    },
}
COMPLETIONS = {
    "prefix": {"masks": (PREFIX,)},
    "guided": {
        "masks": (PREFIX,),
        "label": 1,
        "guidance": 2.0,
    },
    "known pixels": {
        "masks": (HOLES,),
        "particles": 2,
    },
}


@pytest.fixture(scope="module")
def engine():
    torch.manual_seed(0)
    model = Transformer(PAPER)
    model.eval().requires_grad_(False)
    head = ClassHead.empty(FeatureShape((8,), 4), PAPER)
    model.class_head = replace(
        head,
        scale=torch.ones_like(head.scale),
        temperature=torch.ones(()),
    )
    return Engine(Generator(model, 4, 1, backend="cpu"))


def longest_tick(engine, most=10_000):
    """Processor time of the longest of the next ticks, until all requests have ended."""
    longest = 0.0
    while not engine.idle and most:
        began = time.process_time()
        events = engine.tick()
        took = time.process_time() - began
        longest = max(longest, took)
        most -= 1
        failed = of_kind(events, Failed)
        assert not failed
    return longest


@pytest.fixture(scope="module")
def ordinary(engine):
    """Processor time of a tick that paints, or of a few steps by torch where these take longer."""
    engine.accept(GenerateRequest(0, 1, 0))
    painting = longest_tick(engine, 20)
    engine.accept(Cancel(0))
    image = torch.frombuffer(bytearray(IMAGE), dtype=torch.uint8)
    state = State.zeros(PAPER, 1)
    steps = []
    for stop in (READ_STEPS["cpu"] * number for number in (1, 2, 3)):
        began = time.process_time()
        with torch.inference_mode():
            engine.generator.model.parallel(image[None], state, stop)
        steps.append(time.process_time() - began)
    return max(painting, min(steps))


@pytest.mark.parametrize("kind", READINGS)
def test_an_image_is_read_in_pieces(engine, ordinary, kind):
    fields = READINGS[kind]
    count = len(fields.get("labels", (0,)))
    request = ScoreRequest(1, (IMAGE,) * count, **fields)
    engine.accept(request)
    assert longest_tick(engine) < 3 * ordinary


@pytest.mark.parametrize("kind", COMPLETIONS)
def test_known_pixels_are_read_in_pieces(engine, ordinary, kind):
    request = GenerateRequest(1, 1, 0, (IMAGE,), **COMPLETIONS[kind])
    engine.accept(request)
    assert longest_tick(engine) < 3 * ordinary
