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


def painted(name, precision, **options):
    model = scanline.load(name, precision=precision, device="cpu", threads=1)
    return model.sample(1, seed=5, **options).array


@pytest.mark.parametrize(
    ("name", "precision", "network"),
    and_slow(
        [("mnist-small", "int8", WasmNetwork), ("cifar10-small", "int8", WasmNetwork)],
        ("mnist-small", "int8", StepByStep),
        ("mnist-small", "exact", WasmNetwork),
        ("mnist-small", "exact", StepByStep),
        ("letters-small", "int8", WasmNetwork),
        ("letters-small", "int8", StepByStep),
        ("letters-small", "exact", WasmNetwork),
        ("letters-small", "exact", StepByStep),
        ("cifar10-small", "int8", StepByStep),
        ("cifar10-small", "exact", WasmNetwork),
        ("cifar10-small", "exact", StepByStep),
    ),
)
def test_a_picture_has_the_bytes_of_this_processor(name, precision, network, monkeypatch):
    expected = painted(name, precision)
    monkeypatch.setattr(cpu_kernels, "Network", network)
    assert np.array_equal(painted(name, precision), expected)


def test_a_guided_digit_its_completion_class_and_code_are_those_of_this_processor(monkeypatch):
    def made():
        model = scanline.load("mnist-small", precision="int8", device="cpu", threads=1)
        digit = model.sample(1, seed=7, class_name="seven", guidance=1.5, temperature=0.9)
        completed = model.complete(digit.array[0], keep_rows=14, seed=7)
        code = model.compress(digit.array)
        decoded = model.decompress(code)
        assert np.array_equal(decoded, digit.array)
        bits = model.score(digit.array)
        return digit.array.tobytes(), completed.array.tobytes(), code, str(bits)

    expected = made()
    monkeypatch.setattr(cpu_kernels, "Network", WasmNetwork)
    assert made() == expected
