"""The hashes that a card must have are those of the CPU kernel, and what is no operation of it is
found in PTX.
"""

import pytest

pytest.importorskip("triton", reason="Triton is not installed")

from benchmarks.gpu.same_bytes import RECORDED, by_cpu
from scanline.model import zoo
from scanline.model.formats.checkpoint import load_model
from tests.support.kernels.native import NATIVE
from tests.support.kernels.ptx import inexact

PTX = """
    ld.global.v4.f32 {%f1}, [%rd1];
    fma.rn.f32 %f3, %f1, %f2, %f0;  // a comment on ex2.approx.f32
    @%p1 div.rn.f32 %f4, %f3, %f1;
    cvt.rn.f32.s32 %f5, %r1;
"""


@NATIVE
@pytest.mark.parametrize("name", RECORDED)
def test_recorded_hashes_are_those_of_the_cpu_kernel(name):
    network = load_model(zoo.find(name), "cpu")
    assert by_cpu(network, 64) == RECORDED[name]


@pytest.mark.parametrize(
    "other",
    [
        "ex2.approx.f32",
        "div.full.f32",
        "mul.f32",
        "fma.rn.ftz.f32",
        "add.rz.f32",
        "lg2.approx.ftz.f32",
    ],
)
def test_float_operations_that_round_otherwise_are_found(other):
    assert inexact(PTX) == []
    assert inexact(f"{PTX}    {other} %f6, %f5;\n") == [other]
