"""The device of tests of Triton kernels: on a GPU where there is one, else
on the CPU in Triton's interpreter.

A test file imports this before any kernel: without Triton the file is skipped.
"""

from dataclasses import replace
from functools import cache
from math import prod
from types import SimpleNamespace

import numpy as np
import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed")

import triton.language as tl
from triton._utils import validate_block_shape
from triton.runtime import interpreter
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from tests.support.kernels.device import DEVICE, ON_GPU, there

__all__ = ["DEVICE", "NARROW", "ON_GPU", "there"]

# the interpreter cannot multiply bfloat16
NARROW = [torch.float16, torch.bfloat16] if ON_GPU else [torch.float16]


def _dot(self, a, b, sums, *rest):
    """sums + a b of a [n, K] and b [K, m], one k after the other.

    On a GPU, no element of tl.dot depends on the other rows and columns or on its place among them.
    The interpreter calls numpy's matmul, which has no such property: in some of OpenBLAS's kernels
    the rounding of a row depends on where in the matrix it stands. Tests of what our kernels do
    with their rows must not depend on that, so the interpreter multiplies and adds here element by
    element, each operation rounded once, in the order of k. Sums of whole numbers are exact.
    """
    result = sums.data.copy()
    if result.dtype.kind == "i":
        result += np.matmul(a.data.astype(float), b.data.astype(float)).astype(result.dtype)
        return TensorHandle(result, sums.dtype.scalar)
    left = a.data.astype(result.dtype)
    right = b.data.astype(result.dtype)
    for k in range(left.shape[1]):
        result += left[:, k, None] * right[None, k]
    return TensorHandle(result, sums.dtype.scalar)


# Two thirds of the interpreter's time go into what these tests do not need: it replaces the
# functions of triton.language again at each call of a device function, asserts that no sum of
# int32 overflows, and makes the shape of each result anew, several times. The functions below
# make each shape and type of numpy once.


def _sizes(shape):
    return tuple(getattr(size, "value", size) for size in shape)


@cache
def _of_type(sizes):
    """The shape of a type, and its number of elements."""
    return tl.core.tuple(sizes), validate_block_shape(sizes)


@cache
def _of_tensor(sizes):
    """The shape of a tensor, and its number of elements."""
    return tl.core.tuple([tl.constexpr(size) for size in sizes]), tl.constexpr(prod(sizes))


def _new_type(self, element_ty, shape):
    self.element_ty = element_ty
    self.name = f"block of {element_ty.name}"
    self.shape, self.numel = _of_type(_sizes(shape))


def _new_tensor(self, handle, type):
    self.handle = handle
    self.type = type
    self.dtype = type.scalar
    self.shape, self.numel = _of_tensor(_sizes(type.shape) if type.is_block() else ())


def _is_equal(self, other):
    return tl.constexpr(_sizes(self) == _sizes(other))


def _numpy_type(type):
    if (name := type.scalar.name) not in _numpy_types:
        _numpy_types[name] = _find_numpy_type(type)
    return _numpy_types[name]


_numpy_types = {}
_find_numpy_type = interpreter._get_np_dtype

if not ON_GPU:
    assert hasattr(InterpreterBuilder, "create_dot")
    InterpreterBuilder.create_dot = _dot
    tl.block_type.__init__ = _new_type
    tl.tensor.__init__ = _new_tensor
    tl.core.tuple.__eq__ = _is_equal
    interpreter._get_np_dtype = _numpy_type
    scope = interpreter._patch_lang(SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))
    interpreter._patch_lang = lambda function: type(scope)()
    interpreter.interpreter_builder.options = replace(
        interpreter.interpreter_builder.options, sanitize_overflow=False
    )
