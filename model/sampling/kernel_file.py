"""The file that the page's kernel loads: a network's tensors in the kernel's order, as safetensors.

Its metadata has one entry, so that the same model makes the same bytes: what the kernel needs
besides the tensors, what a page without a server shows, and how its class head reads pictures.
"""

import json
from typing import Any

import torch
from safetensors.torch import save

from scanline.kernels import cpu as cpu_kernels
from scanline.kernels.cpu.bindings import WEIGHT_TYPES
from scanline.kernels.cpu.shape import FIELDS
from scanline.model.backends.cpu import CpuBackend, kernel_shape, kernel_tensors
from scanline.model.base.precision import DEFAULT, PRECISIONS, PrecisionName, precision
from scanline.model.formats.model_dir import ModelInfo
from scanline.model.likelihood.typicality import LEVELS
from scanline.model.network.class_head import ClassHead
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.base.digest import HEX_DIGITS, coding_digests, model_digest


def kernel_file(model: Transformer, served_precision: str, info: ModelInfo | None = None) -> bytes:
    """Return the file of a model on a CPU, at a precision or, where no CPU has this, at the default
    one. The kernel rounds weights when it loads them. With what its directory says, pictures can
    be read by its class head."""
    config = model.config
    shape = kernel_shape(config)
    is_int8 = precision(served_precision).int8_weights
    name: PrecisionName = "int8" if is_int8 else DEFAULT
    described: dict[str, Any] = {
        "abi": cpu_kernels.ABI,
        "shape": {field: getattr(shape, field) for field in FIELDS},
        "weights": WEIGHT_TYPES["int8" if is_int8 else "float32"],
        "first_byte_histogram": config.first_byte_histogram,
        "precision": name,
        **_digests(model, name),
        "reading": None,
    }
    tensors = {}
    for number, tensor in enumerate(kernel_tensors(model)):
        tensors[f"{number:04}"] = _smallest(tensor.detach())
    if model.class_head is not None and info is not None:
        described["reading"] = _reading(model.class_head, info)
        for part, tensor in model.class_head.tensors.items():
            tensors[f"head.{part}"] = _smallest(tensor)
    return save(tensors, {"scanline": json.dumps(described)})


def _reading(head: ClassHead, info: ModelInfo) -> dict[str, Any]:
    """Return what a picture is read by besides the numbers of the class head."""
    return {
        "layers": head.shape.layers,
        "cells": head.shape.cells,
        "cleaning": info.cleaning and info.cleaning.to_dict(),
        "typical": info.typicality and info.typicality.to_dict(),
        "levels": LEVELS.tolist(),
    }


def _digests(model: Transformer, name: PrecisionName) -> dict[str, str]:
    """Return the digests of what the kernel paints and of the codes that it makes, zeros where this
    machine has no kernel."""
    if not cpu_kernels.available():
        return dict.fromkeys(("digest", "coding"), "0" * HEX_DIGITS)
    backend = CpuBackend(model, threads=1, precision=PRECISIONS[name])
    digests = {
        "digest": model_digest(model, backend, name),
        "coding": coding_digests(model, backend, name)[0],
    }
    backend.close()
    return digests


def _smallest(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in float16 where that holds it without loss, else in float32."""
    half = tensor.half()
    is_lossless = torch.equal(half.float(), tensor.float())
    return (half if is_lossless else tensor.float()).contiguous()
