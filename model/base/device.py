"""Devices and backends: which one a model runs on. Imports torch only when a device is resolved."""

import logging
import re
from typing import Literal

log = logging.getLogger("scanline.model")

AMPERE = (8, 0)  # compute capability of the first GPUs that our kernels run on
HOPPER = (9, 0)  # and of the first that can chain launches
# TFLOP/s of products in bfloat16 without sparsity, as published, by words of the
# GPU's name; a card's variants first
PEAKS: tuple[tuple[set[str], int], ...] = (
    ({"B200"}, 2250),
    ({"H100", "PCIe"}, 756),
    ({"H100", "NVL"}, 835),
    ({"H200", "NVL"}, 835),
    ({"H100"}, 989),
    ({"H200"}, 989),
    ({"GH200"}, 989),
    ({"A100"}, 312),
    ({"L40S"}, 362),
    ({"4090"}, 165),
)
# words of a card, or a slice of one, that has less than its name's peak
OTHER_CARDS = {"MIG", "Laptop", "D"}

BackendName = Literal["auto", "cuda", "cuda-unchained", "cuda-narrow", "eager", "cpu"]
AUTO: BackendName = "auto"
ON_GPU = ("cuda", "cuda-unchained", "cuda-narrow", "eager")  # fastest first
ON_CPU = ("cpu", "eager")
BACKEND_HELP = (
    "auto, or the only one to use: cuda, cuda-unchained (our GPU kernels, with or without chained launches),"
    " cuda-narrow (without, and products in narrow programs alone), eager (torch), cpu (our CPU kernel)."
)


def resolve_device(name: str) -> str:
    """Return "cpu" or "cuda"; auto is cuda where there is a device. ValueError for other names and
    a missing device."""
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name not in ("cpu", "cuda"):
        raise ValueError(f"the device must be auto, cpu or cuda, not {name!r}")
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("there is no CUDA device on this machine; use --device cpu")
    return name


def resolve_backend(device: str, backend: str = AUTO) -> tuple[str, str | None]:
    """Return the device to load a model on, "cpu" or "cuda", and the backends that a Generator is
    to try: names separated by commas, or None for all, the CPU's included.

    Only where `device` is auto may a model leave a GPU for the CPU. ValueError where the two
    exclude each other, or this machine does not have what they name.
    """
    known = dict.fromkeys((AUTO, *ON_GPU, *ON_CPU))
    if backend not in known:
        raise ValueError(f"the backend must be one of {', '.join(known)}, not {backend!r}")
    needed = device
    if backend not in (AUTO, *ON_GPU):
        needed = "cpu"
    elif backend not in (AUTO, *ON_CPU):
        needed = "cuda"
    if device not in ("auto", needed):
        raise ValueError(
            f"the backend {backend} runs on --device {needed}, not on --device {device}"
        )
    try:
        resolved = resolve_device(needed)
    except ValueError:
        if device == needed:
            raise
        raise ValueError(
            f"the backend {backend} needs a GPU, and there is no CUDA device on this machine"
        ) from None
    if resolved == "cuda" and (reason := _unusable_gpu()):
        if needed != "auto":
            raise ValueError(f"the CUDA device does not work: {reason}")
        log.warning("the CUDA device is not used: %s", reason)
        resolved = "cpu"
    if backend == AUTO:
        return resolved, ",".join(ON_GPU) if needed == "cuda" else None
    return resolved, backend


def peak_flops(device: str) -> float | None:
    """Return the highest rate of products of all GPUs of this machine, in operations a second; None
    for a CPU and for GPUs that are not in the table."""
    if device != "cuda":
        return None
    import torch

    peak = peak_of(torch.cuda.get_device_name())
    return None if peak is None else 1e12 * peak * torch.cuda.device_count()


def peak_of(name: str) -> int | None:
    """Return the published TFLOP/s of a GPU by the name that torch gives it; None where the table
    has no such card."""
    words = set(re.split(r"[\s-]+", name))
    if words & OTHER_CARDS:
        return None
    return next((peak for card, peak in PEAKS if card <= words), None)


def _unusable_gpu() -> str | None:
    """Return why not even torch computes on the GPU, as where it was built without this
    architecture; else None."""
    import torch

    from scanline.kernels.gpu import summary

    try:
        torch.ones(1, device="cuda").add_(1).item()
    except Exception as error:  # of the driver, in many classes
        return summary(error)
    return None
