"""The digest of everything that decides which bytes a generator paints for a seed.

It covers the configuration, the weights, the device type, the backend, the precision and the build. What changes no
byte is left out: slots, threads, and the instruction set of the cpu backend. Two generators of one digest paint the
same bytes.
"""

import json
from dataclasses import fields
from hashlib import sha256
from typing import Any

import torch

from scanline.model.backends.backend import Backend
from scanline.model.config import READS, stored_name
from scanline.model.extras import version
from scanline.model.network.transformer import Transformer

# Raised with every change of a painted byte that comes neither from a backend's `build` nor with a new version.
PAINTING = 1
QUANTISED_CDF = 1  # raised with every change of an interval by kernels/codec
CODED_FORMAT = 2  # of config.json when codes began; a field of a later one counts where it is not its default
HEX_DIGITS = 32  # 16 bytes: enough for no two models to share one by chance, short enough for a log line


def model_digest(model: Transformer, backend: Backend, precision: str) -> str:
    """Return 32 hexadecimal digits of a SHA-256 over the weights as they lie in memory, and what computes with them."""
    return _digest(
        model,
        {
            "config": model.config.to_dict(),
            "device": model.device.type,
            "backend": backend.build,
            "precision": precision,
            "scanline": version(),
            "painting": PAINTING,
        },
    )


def coding_digest(model: Transformer, backend: Backend, precision: str) -> str:
    """Return the same of what decides the intervals of an image's bytes, and so what its code paints: the network, what
    computes its parameters, and the quantised CDFs. A later version of this program decodes what it has encoded."""
    chosen: dict[str, Any] = {"format": CODED_FORMAT}
    for field in fields(model.config):
        if (value := getattr(model.config, field.name)) != field.default:
            chosen[stored_name(field.name)] = value
    if model.config.step == "pixel":  # as config.json has it
        chosen["reads"] = READS["pixel"]
    return _digest(
        model, {"config": chosen, "backend": backend.arithmetic, "precision": precision, "law": QUANTISED_CDF}
    )


def _digest(model: Transformer, described: dict[str, Any]) -> str:
    hashed = sha256(json.dumps(described, sort_keys=True).encode())
    for name, tensor in sorted(model.state_dict().items()):
        hashed.update(f"\n{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        hashed.update(_bytes(tensor))
    return hashed.hexdigest()[:HEX_DIGITS]


def _bytes(tensor: torch.Tensor) -> memoryview:
    """Return the bytes of a tensor, copied only from another device."""
    return tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data
