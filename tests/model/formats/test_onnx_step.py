"""The exported step is the model's step: in onnxruntime, with every option,
from files of every kind of weights.
"""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from scanline.model.base.config import ModelConfig
from scanline.model.base.state import NUMBERS, State
from scanline.model.formats.onnx_graph import WEIGHTS
from scanline.model.formats.onnx_step import CONFIG_KEY, export_step, stored_weights
from tests.support import small_models
from tests.support.close import assert_close
from tests.support.sweeps import and_slow

ODD_WAVES = {"position": "sincos", "heads": 1, "key_width": 3, "value_width": 7, "layers": 1}
CLASSES = (("7", "seven"), ("horse",))
CLASSIFIED = {  # one of each kind of embedding
    "classes": {"classes": CLASSES},
    "classes, concat": {"classes": CLASSES, "embedding_join": "concat"},
    "classes, window": {"classes": CLASSES, **small_models.VARIANTS["window"]},
    "classes, pixels": {
        "classes": CLASSES,
        "class_biases": True,
        **small_models.VARIANTS["waves of pixels"],
    },
}
VARIANTS = {**small_models.VARIANTS, "odd waves": ODD_WAVES, **CLASSIFIED}
SOME = ["authors", "strokes", "waves of pixels", "classes, concat"]
MORE = [*SOME, "plain", "relu", "odd waves", "classes", "classes, window", "classes, pixels"]
SWEEP = and_slow(SOME, *(variant for variant in VARIANTS if variant not in SOME))


class Step:
    """The exported step of a model, called as Transformer.step is."""

    def __init__(self, model, weights="float32"):
        self.file = export_step(model, weights).SerializeToString()
        self.session = onnxruntime.InferenceSession(self.file)
        self.size = model.config.step_bytes
        self.has_classes = bool(model.config.classes)
        self.mixes_neighbours = model.config.causal_conv

    def __call__(self, images, state, labels=None):
        feeds = {"image": images, "position": state.position.int(), "s": state.s, "z": state.z}
        if self.has_classes:
            feeds["label"] = (
                torch.zeros(len(images), dtype=torch.int32) if labels is None else labels.int()
            )
        if self.mixes_neighbours:
            feeds["recent"] = state.conv_state
        results = self.session.run(None, {name: tensor.numpy() for name, tensor in feeds.items()})
        parameters, *numbers = map(torch.from_numpy, results)
        # recent only of a model that mixes neighbours
        for name, tensor in zip(NUMBERS, numbers, strict=False):
            setattr(state, name, tensor)
        state.position = state.position + self.size
        return parameters


def model_of(variant):
    if variant == "small features":
        return small_models.with_small_features(model_of("plain"))
    return small_models.model(small_models.config(**VARIANTS[variant]))


def images_of(model, count):
    return small_models.tensor(model.config, count)


REST = [variant for variant in VARIANTS if variant not in MORE]


@pytest.mark.parametrize("variant", and_slow([*MORE, "small features"], *REST))
def test_parameters_and_states_of_whole_images_are_the_models(variant):
    model = model_of(variant)
    step = Step(model)
    config = model.config
    images = images_of(model, 3)
    labels = torch.tensor([0, 1, 2]) if config.classes else None
    reference = State.zeros(config, 3)
    state = State.zeros(config, 3)
    state.conv_state.fill_(torch.nan)  # of no pixel yet
    for _ in range(config.steps):
        assert_close(
            "parameters", model.step(images, reference, labels), step(images, state, labels)
        )
    for name in NUMBERS[: 3 if config.causal_conv else 2]:
        assert_close(name, getattr(reference, name), getattr(state, name))


@pytest.mark.parametrize("variant", SWEEP)
def test_the_file_is_sound_holds_its_configuration_and_reads_no_byte_before_it_is_painted(
    variant,
):
    model = model_of(variant)
    step = Step(model)
    config = model.config
    onnx.checker.check_model(onnx.load_from_string(step.file), full_check=True)
    assert (
        ModelConfig.from_dict(
            json.loads(step.session.get_modelmeta().custom_metadata_map[CONFIG_KEY])
        )
        == config
    )
    images = images_of(model, 1)
    state = State.zeros(config, 1)
    other = State.zeros(config, 1)
    for position in range(config.first, config.bytes, config.step_bytes):
        painted = images.clone()
        painted[:, position:] ^= 255
        assert torch.equal(step(images, state), step(painted, other))


@pytest.mark.parametrize("variant", SWEEP)
def test_weights_in_float16_are_those_in_float32(variant):
    stored = model_of(variant).half().float()
    assert stored_weights(stored) == "float16"
    assert stored_weights(model_of(variant)) == "float32"
    steps = [Step(stored, weights) for weights in ("float32", "float16")]
    first, second = (step(images_of(stored, 2), State.zeros(stored.config, 2)) for step in steps)
    assert torch.equal(first, second)
    assert len(steps[1].file) < len(steps[0].file)


def test_weights_are_stored_exactly_unless_others_are_asked_for_that_can_hold_them():
    model = small_models.model(small_models.config())
    assert export_step(model) == export_step(model, "float32")
    with pytest.raises(ValueError, match=f"unknown weights 'int4'; known: {', '.join(WEIGHTS)}"):
        export_step(model, "int4")
    model.head.weight[0, 0] = 70_000
    with pytest.raises(
        ValueError, match="a weight of 70000 is beyond float16; export with --weights float32"
    ):
        export_step(model, "float16")
    assert np.isfinite(
        Step(model)(torch.zeros(1, 20, dtype=torch.uint8), State.zeros(model.config, 1)).numpy()
    ).all()
    stored = small_models.model(small_models.config()).half().float()
    assert export_step(stored) == export_step(stored, "float16")


@pytest.mark.parametrize("variant", SWEEP)
def test_int8_costs_little(variant):
    model = model_of(variant)
    costs = []
    config = model.config
    images = images_of(model, 16)
    for weights in ("float32", "int8"):
        step = Step(model, weights)
        state = State.zeros(config, len(images))
        each = [
            model.bits(
                step(images, state).unsqueeze(1), images, position, position + config.step_bytes
            )
            for position in range(config.first, config.bytes, config.step_bytes)
        ]
        costs.append(torch.cat(each, dim=1).mean().item())
    assert costs[0] != costs[1]
    assert costs[1] == pytest.approx(costs[0], rel=0.02)
