"""Memory in bytes: of the tensors that an object holds, of this process, and what is left on the machine."""

import ctypes
import os
from pathlib import Path

import torch


def owned(owner: object) -> int:
    """Bytes of the tensors that an object of ours holds, however deep, networks' weights apart."""
    if isinstance(owner, torch.Tensor):
        return owner.nbytes
    if isinstance(owner, list | tuple):
        return sum(owned(member) for member in owner)
    if isinstance(owner, torch.nn.Module) or not type(owner).__module__.startswith("scanline.model."):
        return 0
    return sum(owned(member) for member in vars(owner).values())


def resident(device: str) -> int | None:
    """Bytes of this process in memory now, program code read from files apart, or of torch's tensors on the GPU; None
    where the system does not say."""
    if device == "cuda":
        return torch.cuda.memory_allocated()
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return None
    _, pages, from_files = map(int, statm.read_text().split()[:3])
    return (pages - from_files) * os.sysconf("SC_PAGE_SIZE")


def give_back() -> None:
    """Returns freed memory to the system, where it would be used again unseen by `resident` (glibc only)."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)


def available(device: str) -> int | None:
    """Bytes that could be taken now; None where the system does not say."""
    if device == "cuda":
        return torch.cuda.mem_get_info()[0]
    meminfo = Path("/proc/meminfo")
    if not meminfo.exists():
        return None
    line = next(line for line in meminfo.read_text().splitlines() if line.startswith("MemAvailable"))
    return 1024 * int(line.split()[1])
