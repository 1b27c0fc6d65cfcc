"""Where tests of Triton kernels run: on a GPU where there is one, else on the CPU in Triton's interpreter.

A test file imports this before any kernel: without Triton the file is skipped.
"""

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ON_GPU = DEVICE == "cuda"
NARROW = [torch.float16, torch.bfloat16] if ON_GPU else [torch.float16]  # the interpreter cannot multiply bfloat16


def there(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Copies of the tensors where the kernels are."""
    return tuple(tensor.to(DEVICE, copy=True) for tensor in tensors)
