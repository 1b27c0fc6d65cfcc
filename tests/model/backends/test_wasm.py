"""The shipped models, painted, completed and coded by the kernel's WebAssembly module: byte for
byte what this processor's instruction set makes, step by step and painting ahead."""

import numpy as np
import pytest

import scanline
from scanline.kernels import cpu as cpu_kernels
from tests.support.kernels import native_vectors
from tests.support.kernels.wasm_network import WasmNetwork
from tests.support.sweeps import and_slow

pytestmark = pytest.mark.skipif("wasm" not in native_vectors.ISAS, reason="needs wasmtime")


class StepByStep(WasmNetwork):
    def advance(self, slots, passes, chosen=None, *, widest=1, stop=None):
        return super().advance(slots, passes, chosen, widest=1, stop=stop)


NETWORKS = and_slow([WasmNetwork], StepByStep)
PRECISIONS = and_slow(["int8"], "exact")
MODELS = and_slow(["mnist-small", "cifar10-small"], "letters-small", "avatars-small")


def loaded(name, precision):
    return scanline.load(
        name,
        precision=precision,
        device="cpu",
        threads=1,
    )


def painted(name, precision):
    model = loaded(name, precision)
    images = model.sample(1, seed=5)
    return images.array


@pytest.mark.compared("pictures of shipped models", "this processor", "WebAssembly in wasmtime")
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", MODELS)
def test_a_picture_has_the_bytes_of_this_processor(name, precision, network, monkeypatch, compared):
    expected = painted(name, precision)
    monkeypatch.setattr(cpu_kernels, "Network", network)
    assert np.array_equal(painted(name, precision), expected)
    compared(expected)


@pytest.mark.compared(
    "a guided digit, its completion and its code", "this processor", "WebAssembly in wasmtime"
)
def test_a_guided_digit_its_completion_class_and_code_are_those_of_this_processor(
    monkeypatch, compared
):
    def made():
        model = loaded("mnist-small", "int8")
        images = model.sample(
            1,
            seed=7,
            class_name="seven",
            guidance=1.5,
            temperature=0.9,
        )
        digit = images.array
        completed = model.complete(digit[0], keep_rows=14, seed=7)
        code = model.compress(digit)
        decoded = model.decompress(code)
        assert np.array_equal(decoded, digit)
        return {
            "digit": digit.tobytes(),
            "completed": completed.array.tobytes(),
            "code": code,
            "bits": model.score(digit).tolist(),
            "class": model.classify(digit).logits.tolist(),
        }

    expected = made()
    monkeypatch.setattr(cpu_kernels, "Network", WasmNetwork)
    assert made() == expected
    compared(expected["digit"], expected["completed"], expected["code"])
