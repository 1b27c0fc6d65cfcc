"""The file that the page's kernel loads: a network's tensors in the kernel's order, as safetensors.

Its metadata has one entry, so that the same model makes the same bytes: what the kernel needs
besides the tensors, and what a page without a server shows.
"""

import json

import torch
from safetensors.torch import save

from scanline.kernels import cpu as cpu_kernels
from scanline.kernels.cpu.bindings import WEIGHT_TYPES
from scanline.kernels.cpu.shape import FIELDS
from scanline.model.backends.cpu import CpuBackend, kernel_shape, kernel_tensors
from scanline.model.base.precision import DEFAULT, PRECISIONS, PrecisionName, precision
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.base.digest import HEX_DIGITS, coding_digests


def kernel_file(model: Transformer, served_precision: str) -> bytes:
    """Return the file of a model on a CPU, at a precision or, where no CPU has this, at the default
    one. The kernel rounds weights when it loads them."""
    config = model.config
    shape = kernel_shape(config)
    is_int8 = precision(served_precision).int8_weights
    name: PrecisionName = "int8" if is_int8 else DEFAULT
    described = {
        "abi": cpu_kernels.ABI,
        "shape": {field: getattr(shape, field) for field in FIELDS},
        "weights": WEIGHT_TYPES["int8" if is_int8 else "float32"],
        "first_byte_histogram": config.first_byte_histogram,
        "precision": name,
        "coding": _coding(model, name),
    }
    tensors = {}
    for number, tensor in enumerate(kernel_tensors(model)):
        tensors[f"{number:04}"] = _smallest(tensor.detach())
    return save(tensors, {"scanline": json.dumps(described)})


def _coding(model: Transformer, name: PrecisionName) -> str:
    """Return the digest of codes that the kernel makes, zeros where this machine has none."""
    if not cpu_kernels.available():
        return "0" * HEX_DIGITS
    backend = CpuBackend(model, threads=1, precision=PRECISIONS[name])
    coding = coding_digests(model, backend, name)[0]
    backend.close()
    return coding


def _smallest(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in float16 where that holds it without loss, else in float32."""
    half = tensor.half()
    is_lossless = torch.equal(half.float(), tensor.float())
    return (half if is_lossless else tensor.float()).contiguous()
