"""The CPU kernel is the network: every instruction set, against the
parallel view and against itself.
"""

from itertools import product

import numpy as np
import pytest
import torch

from scanline.kernels import cpu as cpu_kernels
from scanline.model import zoo
from scanline.model.backends.cpu import CpuBackend, kernel_shape, kernel_tensors
from scanline.model.backends.prefill_batch import PrefillBatch
from scanline.model.base.precision import PRECISIONS
from scanline.model.base.state import State
from scanline.model.evaluation.likelihood import bits
from scanline.model.formats.checkpoint import load_model
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.kinds.image_spec import ImageSpec
from tests.support import small_models
from tests.support.close import assert_close
from tests.support.kernels.native import ISAS, NATIVE

pytestmark = NATIVE

SIZES = {
    "odd": {},
    "vectors of 16": {
        "heads": 4,
        "key_width": 16,
        "value_width": 16,
        "feed_forward": 128,
        "components": 10,
    },
    "the paper's heads": {"heads": 2, "key_width": 32, "value_width": 32, "feed_forward": 70},
    "one wide head": {"heads": 1, "key_width": 7, "value_width": 64, "components": 70},
}


def read(config, isa, precision="exact", threads=2, count=3):
    """Bits, parameters and final state of some images, which have
    labels where the model has classes.
    """
    return backend_read(
        CpuBackend(small_models.model(config), threads, PRECISIONS[precision], isa), config, count
    )


def backend_read(backend, config, count=3):
    state = State.zeros(config, count)
    images = small_models.tensor(config, count)
    batch = PrefillBatch.of(images, state, np.full(count, config.bytes), labels_of(config, count))
    return *backend.prefill_parameters(batch), state


def labels_of(config, count):
    return (torch.arange(count) + 2) % (len(config.classes) + 1)


def reference(config):
    """What `read` returns, by the parallel view."""
    model = small_models.model(config)
    images = small_models.tensor(config, 3)
    state = State.zeros(config, 3)
    labels = labels_of(config, 3)
    return (
        bits(model, images, labels)[:, config.first :],
        model.parallel(images, state, labels=labels),
        state,
    )


def test_parameters_bits_and_states_are_those_of_the_parallel_view():
    """On one instruction set: all have the same bits (tests/kernels/cpu/test_same_bits.py)."""
    for (variant, options), (size, sizes) in product(small_models.VARIANTS.items(), SIZES.items()):
        if size != "odd" and variant not in small_models.CORE:
            continue
        config = small_models.config(**{**options, **sizes, **small_models.CLASSES})
        (*expected, expected_state), (*found, state) = reference(config), read(config, ISAS[0])
        names = ("bits", "parameters", "s", "z")
        pairs = ((expected_state.s, state.s), (expected_state.z, state.z))
        for name, (right, result) in zip(
            names, (*zip(expected, found, strict=True), *pairs), strict=True
        ):
            assert_close(f"{name}, {variant}, {size}", right, result)
        assert state.position.tolist() == [config.bytes] * 3


@pytest.mark.parametrize("isa", ISAS)
def test_small_features_keep_their_digits(isa):
    config = small_models.config()
    model = small_models.with_small_features(small_models.model(config))
    _, parameters, _ = backend_read(CpuBackend(model, 2, isa=isa), config)
    assert_close("parameters", model.parallel(small_models.tensor(config, 3)), parameters)


@pytest.mark.parametrize("isa", ISAS)
def test_weights_that_fit_float16_are_stored_so_and_compute_what_those_in_float32_do(
    isa,
):
    config = small_models.config(**SIZES["the paper's heads"])
    model = small_models.model(config)
    assert "weights float32" in CpuBackend(model).name
    stored = model.half().float()
    assert "weights float16" in CpuBackend(stored).name
    (*half, state), (*single, other) = (
        backend_read(CpuBackend(stored, 1, isa=isa, weights=weights), config)
        for weights in ("float16", "float32")
    )
    assert all(
        torch.equal(*pair) for pair in zip([*half, state.s], [*single, other.s], strict=True)
    )


@pytest.mark.parametrize("variant", ["plain", "window", "waves of pixels"])
def test_int8_costs_little(variant):
    config = small_models.config(**SIZES["the paper's heads"], **small_models.VARIANTS[variant])
    exact = read(config, ISAS[0])[0].mean()
    coarse = read(config, ISAS[0], "int8")[0].mean()
    assert exact != coarse
    assert abs(exact - coarse) < 0.02 * exact


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"isa": "avx9"}, r"cannot run 'avx9'; it can run .*portable"),
        ({"precision": PRECISIONS["bfloat16-state"]}, "precision 'bfloat16-state' needs a GPU"),
    ],
)
def test_what_this_processor_cannot_run_is_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        CpuBackend(small_models.model(small_models.config()), **options)


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors: tensors[:-1],
        lambda tensors: [],
        lambda tensors: [*tensors, tensors[-1]],
        lambda tensors: [tensors[0][:-1], *tensors[1:]],
    ],
    ids=["one too few", "none", "one too many", "one too short"],
)
def test_tensors_that_do_not_fit_the_shape_are_refused(change):
    model = small_models.model_of("waves of pixels")
    with pytest.raises(
        ValueError, match=r"number or sizes of the \d+ tensors are not those the shape needs"
    ):
        cpu_kernels.Network(kernel_shape(model.config), change(kernel_tensors(model)))


def test_a_digit_is_painted_ahead_in_fewer_passes_than_steps():
    model = load_model(zoo.find("mnist-small"), "cpu")
    generators = [Generator(model, 3, 1, backend="cpu") for _ in range(2)]
    mask = np.arange(784) % 112 < 56  # two rows of pixels known, two hidden, and so on
    specs = [
        ImageSpec(seed=4, index=0),
        ImageSpec(seed=4, index=1, known=np.full(784, 9, np.uint8), mask=mask),
        ImageSpec(seed=4, index=2),
    ]
    for generator in generators:
        generator.place_many([0, 1, 2], specs)
    steps, passes = generators
    steps.advance(784)
    backend, pool = passes.backend, passes.pool
    backend.widest = 16
    chosen = np.array([1, 2])
    stops = np.array([400, 300])
    stopped = backend.paint_ahead(pool, chosen, 784, stops).wait()
    assert passes.positions().tolist() == [0, 400, 300]
    assert stopped.painted == 700
    chosen = np.arange(3)
    ended = backend.paint_ahead(pool, chosen, 784, np.full(3, 784)).wait()
    assert passes.positions().tolist() == [784] * 3
    assert ended.painted == 3 * 784 - 700
    assert stopped.passes + ended.passes < 3 * 784 / 2
    for name in ("images", "bits", "known_bits"):
        assert torch.equal(getattr(pool, name), getattr(steps.pool, name)), name
    for name in ("s", "z"):
        assert torch.equal(getattr(pool.state, name), getattr(steps.pool.state, name)), name
