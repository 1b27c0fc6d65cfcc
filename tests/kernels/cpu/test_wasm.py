"""The kernel's WebAssembly module as it is committed: what its sources build to, small, and with
one import. Its bits are tested beside those of the other instruction sets, in this folder."""

import gzip

import pytest

from scanline.kernels.cpu.wasm import build
from tests.support.kernels import native_vectors, wasm_network
from tests.support.kernels.native_vectors import CASES

MODULE = wasm_network.MODULE
needs_wasmtime = pytest.mark.skipif("wasm" not in native_vectors.ISAS, reason="needs wasmtime")


@pytest.mark.compilers
@pytest.mark.skipif(
    build.installed() != build.COMPILER, reason=f"needs ziglang of version {build.COMPILER}"
)
def test_it_is_built_from_its_sources(tmp_path):
    build.build(tmp_path / "step.wasm")
    built = (tmp_path / "step.wasm").read_bytes()
    assert built == MODULE.read_bytes(), "run `python kernels/cpu/wasm/build.py`"


def test_it_is_at_most_60_kb():
    assert len(gzip.compress(MODULE.read_bytes())) <= 60_000


@needs_wasmtime
def test_it_imports_a_clock_and_nothing_else():
    _, module = wasm_network.compiled(MODULE)
    found = [(each.module, each.name) for each in module.imports]
    assert found == [("wasi_snapshot_preview1", "clock_time_get")]


@needs_wasmtime
def test_its_version_and_structs_are_those_of_the_bindings():
    module = wasm_network.Instance()
    assert module.call("scanline_abi") == wasm_network.expected_abi()


@needs_wasmtime
def test_tensors_that_do_not_fit_the_shape_are_a_trap():
    import wasmtime

    case = CASES["odd"]
    tensors = native_vectors.tensors(case)
    for wrong in (tensors[:-1], [*tensors, tensors[0]], [tensors[0][1:], *tensors[1:]]):
        with pytest.raises(wasmtime.Trap, match="unreachable"):
            native_vectors.open_network(case, wrong, "wasm")
