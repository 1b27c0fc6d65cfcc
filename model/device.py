"""Which device a model runs on."""

import torch


def resolve_device(name: str) -> str:
    """auto -> cuda where there is one, else cpu; ValueError for another word or a cuda that is not there."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name not in ("cpu", "cuda"):
        raise ValueError(f"the device must be auto, cpu or cuda, not {name!r}")
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("there is no CUDA device on this machine; use --device cpu")
    return name
