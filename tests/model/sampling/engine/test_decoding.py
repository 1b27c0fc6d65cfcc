"""Images that are painted from codes: the bytes that were encoded, among others, on every backend."""

import itertools

import numpy as np
import pytest

from scanline.kernels.codec.coder import encode
from scanline.model.config import ModelConfig
from scanline.model.formats.code_file import Codes, label_width
from scanline.model.sampling.messages import Finished, GenerateRequest, Pixels, Scored, ScoreRequest
from scanline.model.tasks.offline import loaded_engine, run
from tests.support import small_models
from tests.support.small_models import CLASSES, CORE, VARIANTS
from tests.support.sweeps import and_slow

LENGTH = 2  # images of a code


def encoded(config: ModelConfig, scored: list[Scored], labels: list[int]) -> Codes:
    """Codes of images under their labels."""
    width, parts = label_width(1 + len(config.classes)), []
    for each, label in zip(scored, labels, strict=True):
        parts.append(
            [(label * width, width), *map(tuple, np.frombuffer(each.intervals, np.uint32).reshape(-1, 2).tolist())]
        )
    codes = [encode(itertools.chain(*parts[first : first + LENGTH])) for first in range(0, len(parts), LENGTH)]
    return Codes(tuple(codes), LENGTH, labelled=True)


@pytest.mark.parametrize(
    ("variant", "backend"),
    and_slow(
        [*((variant, "cpu") for variant in CORE), ("strokes", "eager")],
        *((each, "eager") for each in CORE[:2]),
        ("strokes", "cuda"),
    ),
)
def test_codes_paint_their_images_among_others_and_by_themselves(variant: str, backend: str) -> None:
    config = small_models.config(**VARIANTS[variant], **CLASSES)
    model = small_models.model(config)
    images = [image.tobytes() for image in small_models.images(config, 5)]
    labels = [0, 1, 3, 2, 0]
    with loaded_engine(model, 4, threads=2, backend=backend) as engine:
        scored = [
            event
            for events in run(engine, ScoreRequest(0, tuple(images), tuple(labels), coded=True))
            for event in events
            if isinstance(event, Scored)
        ]
        codes = encoded(config, sorted(scored, key=lambda each: each.index), labels)
        others = GenerateRequest(1, 3, seed=4, temperature=0.7), GenerateRequest(2, 3, seed=4, client="other")
        whole = GenerateRequest(3, 5, 0, codes=codes, stream=True)
        found = {(each.request, each.index): each for each in finished(engine, *others, whole)}
        alone = {each.index: each for each in finished(engine, GenerateRequest(4, 5, 0, codes=codes, only=(1, 4)))}
        painted = {(each.request, each.index): each for each in finished(engine, *others)}
    for index, (image, label) in enumerate(zip(images, labels, strict=True)):
        assert (found[3, index].image, found[3, index].label) == (image, label)
    assert {index: each.image for index, each in alone.items()} == {1: images[1], 4: images[4]}
    assert painted == {key: each for key, each in found.items() if key[0] != 3}


def finished(engine: object, *requests: GenerateRequest) -> list[Finished]:
    """The finished images; those of streams are what was sent as pixels."""
    streamed: dict[tuple[int, int], bytes] = {}
    ended = []
    for event in itertools.chain.from_iterable(run(engine, *requests)):
        if isinstance(event, Pixels):
            for index, first, data in event.painted:
                assert first == len(streamed.get((event.request, index), b""))
                streamed[event.request, index] = streamed.get((event.request, index), b"") + data
        if isinstance(event, Finished):
            assert streamed.get((event.request, event.index), event.image) == event.image
            ended.append(event)
    return ended
