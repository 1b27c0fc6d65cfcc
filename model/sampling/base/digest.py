"""The digest of everything that decides which bytes a generator paints for a seed.

It covers the configuration, the weights, the device type, the backend, the precision, the build, and what the backend
computes for fixed noise: libraries choose by processor how they round, and a compiler by its options. What changes no
byte is left out: slots, threads, and the instruction set of the cpu backend. Two generators of one digest paint the
same bytes. A class head has a digest of its own: it paints nothing.
"""

import json
from collections.abc import Mapping
from dataclasses import fields
from hashlib import sha256
from typing import Any

import numpy as np
import torch

from scanline.model.backends.backend import Backend
from scanline.model.backends.prefill_batch import PrefillBatch
from scanline.model.base.config import READS, stored_name
from scanline.model.base.extras import version
from scanline.model.base.state import NUMBERS, State
from scanline.model.network.class_head import ClassHead
from scanline.model.network.transformer import Transformer

# Raised with every change of a painted byte that comes neither from a
# backend's `build` nor with a new version.
PAINTING = 1
QUANTISED_CDF = 1  # raised with every change of an interval by kernels/codec
# of config.json when codes began; a field of a later one counts where it is not its default
CODED_FORMAT = 2
PROBED_STEPS = 16  # of fixed noise
# fields that decide no interval; the weights have a row for each class
NAMES = ("classes", "mirrored")
# 16 bytes: enough for no two models to share one by chance, short enough for a log line
HEX_DIGITS = 32


def model_digest(model: Transformer, backend: Backend, precision: str) -> str:
    """Return 32 hexadecimal digits of a SHA-256 over the weights as they lie in
    memory, and what computes with them.
    """
    return _digest(
        model.state_dict(),
        {
            "config": model.config.to_dict(),
            "device": "cpu" if backend.has_cpu_bits else model.device.type,
            "backend": backend.build,
            "probe": probe(model, backend),
            "precision": precision,
            "scanline": version(),
            "painting": PAINTING,
        },
    )


def coding_digests(model: Transformer, backend: Backend, precision: str) -> tuple[str, ...]:
    """Return the same of what decides the intervals of an image's bytes, and so what its code
    paints: the network, what computes its parameters, and the quantised CDFs. A later version of
    this program decodes what it has encoded: the first digest is that of new files, the others are
    those that earlier versions wrote for this model."""
    chosen: dict[str, Any] = {"format": CODED_FORMAT}
    for field in fields(model.config):
        if (value := getattr(model.config, field.name)) != field.default:
            chosen[stored_name(field.name)] = value
    if model.config.step == "pixel":  # as config.json has it
        chosen["reads"] = READS["pixel"]
    described = {"backend": backend.arithmetic, "precision": precision, "law": QUANTISED_CDF}
    network = {name: value for name, value in chosen.items() if name not in NAMES}
    new = {**described, "config": network, "probe": probe(model, backend)}
    return tuple(_digest(model.state_dict(), law) for law in (new, {**described, "config": chosen}))


def class_head_digest(head: ClassHead | None) -> str:
    """Return the same of a class head; empty where there is none."""
    return (
        ""
        if head is None
        else _digest(head.tensors, {"layers": head.shape.layers, "cells": head.shape.cells})
    )


@torch.inference_mode()
def probe(model: Transformer, backend: Backend) -> str:
    """Return a hash of the states, bits and intervals that a backend computes
    for the first steps of fixed noise.
    """
    config = model.config
    device = model.device
    stop = config.first + min(PROBED_STEPS, config.steps) * config.step_bytes
    noise = (
        torch.arange(config.bytes, dtype=torch.int64).square().mul(40503).bitwise_right_shift(8)
        % 256
    )
    label = torch.tensor([len(config.classes)], device=device)
    state = State.zeros(config, 1, device, backend.state_dtype, backend.deferred)
    intervals = torch.zeros(1, stop, 2, dtype=torch.int32, device=device)
    images = noise.to(device, torch.uint8).unsqueeze(0)
    bits = backend.prefill(
        PrefillBatch.of(images, state, np.array([stop]), label, intervals=intervals)
    )
    if backend.has_cpu_bits:  # of the deferred steps that a GPU keeps, none is left
        state = state.complete(config.step_bytes)
    computed = [getattr(state, name) for name in NUMBERS] + [
        bits[:, config.first : stop],
        intervals,
    ]
    return sha256(b"".join(bytes(_bytes(numbers.nan_to_num())) for numbers in computed)).hexdigest()


def _digest(tensors: Mapping[str, torch.Tensor], described: dict[str, Any]) -> str:
    hashed = sha256(json.dumps(described, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        hashed.update(f"\n{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        hashed.update(_bytes(tensor))
    return hashed.hexdigest()[:HEX_DIGITS]


def _bytes(tensor: torch.Tensor) -> memoryview:
    """Return the bytes of a tensor, copied only from another device."""
    return tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data
