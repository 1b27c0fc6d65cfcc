"""The device of tests of Triton kernels: on a GPU where there is one, else on the CPU in Triton's interpreter.

A test file imports this before any kernel: without Triton the file is skipped.
"""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed")

import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ON_GPU = DEVICE == "cuda"
NARROW = [torch.float16, torch.bfloat16] if ON_GPU else [torch.float16]  # the interpreter cannot multiply bfloat16


def there(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Copies of the tensors where the kernels are."""
    return tuple(tensor.to(DEVICE, copy=True) for tensor in tensors)


def _dot(
    self: InterpreterBuilder, a: TensorHandle, b: TensorHandle, sums: TensorHandle, *precision: Any
) -> TensorHandle:
    """sums + a b of a [n, K] and b [K, m], one k after the other.

    On a GPU, no element of tl.dot depends on the other rows and columns or on its place among them. The interpreter
    calls numpy's matmul, which has no such property: in some of OpenBLAS's kernels the rounding of a row depends on
    where in the matrix it stands. Tests of what our kernels do with their rows must not depend on that, so the
    interpreter multiplies and adds here element by element, each operation rounded once, in the order of k.
    """
    result = sums.data.copy()
    left, right = a.data.astype(result.dtype), b.data.astype(result.dtype)
    for k in range(left.shape[1]):
        result += left[:, k, None] * right[None, k]
    return TensorHandle(result, sums.dtype.scalar)


if not ON_GPU:
    assert hasattr(InterpreterBuilder, "create_dot")
    InterpreterBuilder.create_dot = _dot
    # Half of the interpreter's time goes into two things that these tests do not need: it replaces the functions of
    # triton.language again at each call of a device function, and asserts that no sum of int32 overflows.
    scope = interpreter._patch_lang(SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))
    interpreter._patch_lang = lambda function: type(scope)()
    interpreter.interpreter_builder.options = replace(interpreter.interpreter_builder.options, sanitize_overflow=False)
