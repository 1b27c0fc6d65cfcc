"""Which device a model runs on."""

import torch

HOPPER = (9, 0)  # compute capability of the first GPUs that our kernels are made for, and that can chain launches


def resolve_device(name: str) -> str:
    """Returns "cpu" or "cuda"; auto is cuda where there is a device. ValueError for any other name, and for cuda
    without a device."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name not in ("cpu", "cuda"):
        raise ValueError(f"the device must be auto, cpu or cuda, not {name!r}")
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("there is no CUDA device on this machine; use --device cpu")
    return name
