"""Class heads: features are means over cells of one image's outputs, and
their bits depend on no other image.
"""

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from safetensors.torch import load_file, save_file

import scanline
from scanline.kernels.cpu.shape import STATE
from scanline.model.backends.cpu import kernel_shape, kernel_tensors
from scanline.model.base.state import State
from scanline.model.evaluation.other_hands import changed
from scanline.model.formats.checkpoint import load_model, save_class_head, save_model
from scanline.model.formats.model_dir import CLASS_HEAD, ModelDirectoryError, read_info
from scanline.model.images.cleaning import Cleaning, read
from scanline.model.likelihood.typicality import TYPICAL
from scanline.model.network.class_head import FeatureShape
from scanline.model.network.class_reading import (
    READ_STEPS,
    class_answers,
    class_logits,
    features,
)
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.base.prefill_state import Reading
from scanline.model.sampling.prefill.classified import ClassifiedPrefill
from scanline.model.training.run.class_head import fit_class_head
from tests.support import small_models
from tests.support.close import assert_close
from tests.support.kernels import wasm_network

HEADED = {"height": 7, **small_models.CLASSES}


def headed(variant="strokes"):
    model = small_models.model(small_models.config(**HEADED, **small_models.VARIANTS[variant]))
    model.class_head = small_models.class_head(model.config)
    return model


@pytest.mark.parametrize("variant", small_models.CORE)
def test_features_are_the_means_of_the_outputs_in_each_cell(variant):
    model = headed(variant)
    shape = FeatureShape((0, 1), 3)
    config = model.config
    image = small_models.tensor(model.config, 1)[0]
    outputs = []
    for layer in model.layers:  # what the first two are given
        first = layer.attention_norm if config.norm == "pre" else layer.query_key_value
        first.register_forward_pre_hook(lambda module, given: outputs.append(given[0][0]))
    model.parallel(image.unsqueeze(0))
    model = headed(variant)
    cells = [[[] for _ in range(9)] for _ in range(2)]
    for step, at in enumerate(range(config.first, config.bytes, config.step_bytes)):
        row, column = divmod(at // config.channels, config.width)
        for layer in range(2):
            cells[layer][row * 3 // 7 * 3 + column * 3 // 5].append(outputs[layer][step])
    expected = torch.cat([torch.stack(cell).mean(dim=0) for layer in cells for cell in layer])
    assert_close("features", expected, features(model, image[None], shape)[0])


@pytest.mark.parametrize("variant", small_models.CORE)
@pytest.mark.parametrize("backend", ["eager", "cpu"])
def test_logits_have_the_same_bits_whoever_else_is_in_the_batch(variant, backend, monkeypatch):
    monkeypatch.setitem(READ_STEPS, "cpu", 8)  # of 35
    model = headed(variant)
    images = small_models.images(model.config, 5)

    def read(threads, *batches):
        generator = Generator(model, 1, threads, backend=backend)
        logits = np.zeros((5, 3), np.float32)
        for batch in batches:
            stops = [model.config.bytes] * len(batch)
            state = generator.start_prefill(
                images[batch], stops, reading=Reading(ClassifiedPrefill)
            )
            while not state.done:
                generator.run_prefill(state, 2).wait()
            logits[batch] = state.answers[:, :-1]
        generator.close()
        return logits

    together = read(1, [0, 1, 2, 3, 4])
    assert_array_equal(
        read(
            1,
            [0],
            [1],
            [2],
            [3],
            [4],
        ),
        together,
    )
    assert_array_equal(read(3, [3, 4, 1], [2, 0]), together)
    given = features(model, torch.from_numpy(images), FeatureShape((0, 1), 3))
    assert_close("logits", model.class_head.logits(given), torch.from_numpy(together))


def test_a_saved_head_is_loaded_and_goes_with_other_weights(tmp_path):
    model = headed()
    save_model(model, tmp_path)
    assert load_model(tmp_path).class_head is None
    save_class_head(model.class_head, tmp_path)
    loaded = load_model(tmp_path).class_head
    assert loaded.shape == model.class_head.shape
    assert all(
        torch.equal(tensor, loaded.tensors[name])
        for name, tensor in model.class_head.tensors.items()
    )
    assert read_info(tmp_path).has_class_head
    save_model(model, tmp_path)  # a head is for the weights that it was fitted to
    assert not read_info(tmp_path).has_class_head


@pytest.mark.parametrize(
    ("changes", "said", "message"),
    [
        ({"matrix": None}, {}, "lacks the tensor 'matrix'"),
        ({"bias": torch.zeros(4)}, {}, "has shape"),
        ({"scale": torch.zeros(9 * 2 * 12)}, {}, "must be above 0"),
        ({"mean": torch.full((9 * 2 * 12,), torch.nan)}, {}, "NaN"),
        ({}, {"layers": "0 3"}, "reads the outputs of layers 0 to 2"),
        ({}, {"cells": "65"}, "1 to 64 cells"),
        ({}, {"cells": "many"}, "classes.safetensors"),
    ],
)
def test_a_wrong_head_is_refused_in_one_sentence(tmp_path, changes, said, message):
    path = tmp_path / CLASS_HEAD
    model = headed()
    save_model(model, tmp_path)
    save_class_head(model.class_head, tmp_path)
    tensors = {
        name: tensor for name, tensor in (load_file(path) | changes).items() if tensor is not None
    }
    save_file(tensors, path, {"layers": "0 1", "cells": "3"} | said)
    with pytest.raises(ModelDirectoryError, match=message):
        load_model(tmp_path)


def shaded(count, seed):
    """Return noise [count, 20] uint8 and labels [count] of 1 to 3:
    brighter above, below or nowhere.
    """
    rng = np.random.default_rng(seed)
    labels = rng.integers(1, 4, count)
    images = rng.integers(0, 180, (count, 4, 5))
    images[:, :2][labels == 1] += 75
    images[:, 2:][labels == 2] += 75
    return images.reshape(count, 20).astype(np.uint8), labels


def test_the_classes_of_other_images_are_read_and_their_probabilities_are_calibrated():
    model = small_models.model(
        small_models.config(
            mirrored=True, **small_models.VARIANTS["strokes"], **small_models.CLASSES
        )
    )
    images, labels = shaded(600, seed=0)
    read = []
    model.class_head, share = fit_class_head(model, images, labels, progress=read.append)
    tests, truth = shaded(600, seed=1)
    posterior = class_logits(model, torch.from_numpy(tests)).softmax(dim=1)
    right = (posterior.argmax(dim=1) == torch.from_numpy(truth) - 1).float()
    assert right.mean() > 0.8
    assert abs(share - right.mean()) < 0.15
    assert abs(posterior.max(dim=1).values.mean() - right.mean()) < 0.06
    assert read[-1] == 600
    again, _ = fit_class_head(model, images, labels)
    assert all(
        torch.equal(tensor, again.tensors[name])
        for name, tensor in model.class_head.tensors.items()
    )


def bars(count, seed):
    """Return strokes across and down [count, 144] uint8 on 0, and labels [count] of 1 and 2."""
    random = np.random.default_rng(seed)
    labels = random.integers(1, 3, count)
    images = np.zeros((count, 12, 12), np.uint8)
    for image, label in zip(images, labels, strict=True):
        thickness = random.integers(1, 4)
        image[5 : 5 + thickness, 1:11] = random.integers(240, 256, 10)
        if label == 2:
            image[:] = image.T.copy()
    return images.reshape(count, 144), labels


def test_a_head_of_drawings_reads_those_of_other_people_and_knows_what_shows_none(tmp_path):
    classes = {"classes": (("across",), ("down",))}
    changes = small_models.VARIANTS["strokes"] | classes
    model = small_models.model(small_models.config(height=12, width=12, **changes))
    images, labels = bars(400, seed=0)
    head, share = fit_class_head(model, images, labels)
    assert share > 0.95
    tests, truth = bars(200, seed=1)
    model.class_head = head
    save_model(model, tmp_path)
    save_class_head(head, tmp_path)
    loaded = load_model(tmp_path)

    def answers(pictures):
        answer = class_answers(loaded, torch.from_numpy(pictures)).numpy()
        return answer[:, :-1].argmax(axis=1), answer[:, -1]

    ways = {"as they are": tests} | changed(tests.reshape(-1, 12, 12))
    cleaning = Cleaning.measure(images, model.config)
    for name, others in ways.items():
        given = read(others.reshape(-1, 144), model.config, cleaning, "auto").images
        found, usual = answers(given)
        assert (found == truth - 1).mean() > 0.9, name
        assert (usual >= TYPICAL).mean() > 0.8, name
    textures = np.random.default_rng(2).integers(0, 256, (50, 144)).astype(np.uint8)
    _, usual = answers(textures)
    assert (usual < TYPICAL).mean() > 0.3

    tails = scanline.load(tmp_path).classify(tests[:9].reshape(-1, 12, 12)).tail_probabilities
    assert np.array_equal(tails, tails.round(3))


def test_a_head_without_a_measure_of_strangeness_says_so():
    model = headed()
    answer = class_answers(model, small_models.tensor(model.config, 2))
    assert (answer[:, -1] == -1).all()


@pytest.mark.skipif(not wasm_network.IS_INSTALLED, reason="needs wasmtime")
@pytest.mark.parametrize("name", small_models.VARIANTS)
def test_the_kernel_of_a_browser_gives_the_layers_that_a_head_reads(name):
    """Up to rounding: it fuses no sums there, as that would take five times as long."""
    model = small_models.model(small_models.config(**small_models.VARIANTS[name]))
    config = model.config
    images = small_models.tensor(config, 2)
    expected = model.layer_outputs(images, config.first, config.bytes, None, config.layers)
    network = wasm_network.WasmNetwork(kernel_shape(config), kernel_tensors(model))
    state = State.zeros(config, 2, model.device)
    slots = {name: getattr(state, name) for name in STATE}
    slots |= {"images": images, "label": torch.zeros(2, dtype=torch.int64)}
    outputs = network.read_layers(slots, config.first, config.bytes, config.layers)
    assert_close(name, torch.stack(expected), outputs)
