"""The best of several candidates of an image: the one that the class head likes best."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from scanline.model.base.inputs import InvalidInput
from scanline.model.base.sampling_options import DrawnLabel
from scanline.model.formats.model_dir import ModelInfo
from scanline.model.network.class_reading import class_logits
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.base.messages import Failed, Finished, GenerateRequest
from scanline.model.sampling.choices import Choices
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.kinds.best_of import BestOf
from scanline.model.sampling.kinds.guided import Guided
from scanline.model.sampling.kinds.plain import PLAIN
from scanline.model.sampling.prefill.queue import PrefillQueue
from scanline.model.tasks import paint
from scanline.model.tasks.paint import PaintValues
from tests.support import small_models
from tests.support.engine.engine_ticks import ended, of_kind, run_until_idle
from tests.support.kernels.native import BACKENDS

CANDIDATES = 3


def headed(variant):
    config = small_models.config_of(variant, **small_models.CLASSES)
    model = small_models.model(config)
    model.class_head = small_models.class_head(config)
    return model


def painted(model, backend, *requests, slots=8):
    """The images of requests, by request and index."""
    engine = Engine(Generator(model, slots, 1, backend=backend))
    events = run_until_idle(engine, *requests)
    assert not ended(events, Failed)
    assert not engine.choices.waiting
    return {(event.request, event.index): event for event in of_kind(events, Finished)}


@pytest.mark.parametrize("guidance", [1.0, 2.0])
@pytest.mark.parametrize("variant", ["strokes", "pixels"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_candidate_that_the_class_head_likes_best_is_the_image(backend, variant, guidance):
    model = headed(variant)
    classes = len(model.config.classes)
    asked = GenerateRequest(0, 4, 7, label=DrawnLabel(classes), guidance=guidance)
    best = painted(model, backend, replace(asked, best_of=CANDIDATES))
    chosen = []
    for index in range(asked.n):
        # candidate j of an image is the image whose number has j in its high 32 bits
        numbers = [index + (number << 32) for number in range(CANDIDATES)]
        label = asked.label_of(index)
        alone = replace(asked, n=numbers[-1] + 1, only=tuple(numbers), label=label)
        candidates = [*painted(model, backend, alone).values()]
        candidates.sort(key=lambda event: event.index)
        images = np.stack([np.frombuffer(event.image, np.uint8) for event in candidates])
        liked = class_logits(model, torch.from_numpy(images)).log_softmax(dim=1)[:, label - 1]
        chosen.append(int(liked.argmax()))
        expected = replace(candidates[chosen[-1]], index=index)
        assert repr(best[0, index]) == repr(expected)
    assert any(chosen)


def test_of_candidates_that_are_liked_equally_the_first_is_chosen():
    model = headed("strokes")
    choices = Choices(PrefillQueue(Generator(model, 1, 1, backend="eager")))
    candidates = [Finished(0, 4, bytes([value]), 1.0, label=1) for value in range(3)]
    for candidate in candidates:
        choices.add(candidate, "")
    reads = [*choices.prefills.waiting[0]]
    logits = np.array([100.0, 0.0, 0.0], np.float32)
    for read, worse in ((reads[2], 0), (reads[0], 1e-4)):
        assert choices.put(read, logits - np.float32([worse, 0, 0])) is None
    assert choices.put(reads[1], logits) == candidates[1]


def test_an_engine_without_a_class_head_fails_the_request():
    model = headed("strokes")
    model.class_head = None
    engine = Engine(Generator(model, 8, 1, backend="eager"))
    events = run_until_idle(engine, GenerateRequest(0, 1, 7, label=2, best_of=2))
    assert [event.code for event in events] == ["model_changed"]


def test_a_model_without_a_class_head_has_no_best():
    config = headed("strokes").config
    values = PaintValues(class_name=config.class_names[0], sampling={"best_of": 2})
    with pytest.raises(InvalidInput, match="no class head") as caught:
        paint.plan(ModelInfo(config), values)
    assert caught.value.param == "best_of"


def test_an_image_takes_the_slots_of_all_its_candidates():
    guided = BestOf(4, Guided(2.0))
    assert (guided.slots, BestOf(4, PLAIN).slots) == (8, 4)
    guided.check_slots(8)
    with pytest.raises(InvalidInput, match="has 7 slots, and the best of 4 such images needs 8"):
        guided.check_slots(7)
