"""Features that a GPU lacks, and its failures, as one line each."""

import ast
from collections.abc import Iterator
from contextlib import nullcontext

import pytest
import torch

from scanline.kernels import gpu

DEVICE = torch.device("cuda", 0)


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A GPU that has all that the kernels need, until a test takes something away."""
    gpu.missing.cache_clear()
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(gpu, "find_spec", lambda name: object())
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    yield monkeypatch
    gpu.missing.cache_clear()


@pytest.mark.parametrize(
    ("holder", "name", "value", "lacks"),
    [
        (gpu, "find_spec", lambda name: object(), None),
        (torch.version, "hip", "6.4", "the kernels are made for NVIDIA GPUs, and this torch is built for ROCm"),
        (gpu, "find_spec", lambda name: None, "Triton is not installed"),
        (torch.cuda, "is_bf16_supported", lambda including_emulation: including_emulation, "Tesla T4 has no bfloat16"),
    ],
)
def test_what_a_card_lacks_is_named(
    card: pytest.MonkeyPatch, holder: object, name: str, value: object, lacks: str | None
) -> None:
    card.setattr(holder, name, value)
    assert gpu.missing(DEVICE) == lacks


def test_the_summary_of_an_error_is_one_line_about_what_caused_it() -> None:
    error = RuntimeError("at 40:4:\n    x = tl.zeros(...)\n        ^")
    error.__cause__ = TypeError("gdc_wait() got\nan unexpected keyword argument")
    assert gpu.summary(error) == "TypeError: gdc_wait() got an unexpected keyword argument"
    assert gpu.summary(MemoryError()) == "MemoryError"
    assert gpu.summary(ValueError("far too long " * 1000)).count("too long") < 20


def test_the_summary_of_an_error_of_tritons_compiler_is_what_is_wrong_not_where() -> None:
    compilers = pytest.importorskip("triton.compiler.errors", reason="Triton is not installed")
    error = compilers.CompilationError("def kernel():\n    pass", ast.parse("pass").body[0], "ValueError('no tf32x3')")
    assert gpu.summary(error) == "CompilationError: ValueError('no tf32x3')"
