"""Requirements of all Triton kernels on a GPU, checked without compiling one.

Whether a particular kernel runs is known only after compiling it: Triton compares its shared memory
with the device's limit, and the assembler refuses instructions that the device lacks. The first
launch of a kernel on a device may therefore raise any exception.
"""

import logging
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any

import torch

log = logging.getLogger("scanline.model")

REPORT_SECONDS = 5.0  # between two lines about kernels that are being compiled
# the device of kernels of training; tests run them on a CPU, in Triton's interpreter
TRAINING = "cuda"
MAX_SUMMARY = 240  # characters of a summary: the error comes first, advice follows


@cache
def missing(device: torch.device) -> str | None:
    """Return why no Triton kernel runs on this GPU, as the end of a sentence; None if they may run."""
    if torch.version.hip is not None:
        return "the kernels are made for NVIDIA GPUs, and this torch is built for ROCm"
    if find_spec("triton") is None:
        return "Triton is not installed"
    with torch.cuda.device(device):
        if not torch.cuda.is_bf16_supported(including_emulation=False):
            return f"{torch.cuda.get_device_name(device)} has no bfloat16"
    return None


def summary(error: BaseException) -> str:
    """Return an exception of a compiler, a driver or torch as one line; their messages have many."""
    while error.__cause__ is not None:
        error = error.__cause__
    # Triton's own exceptions quote the source before they say what is wrong with it.
    text = _missing_package(error) or getattr(error, "error_message", None) or str(error)
    line = " ".join(text.split())
    if len(line) > MAX_SUMMARY:
        line = line[:MAX_SUMMARY] + " ..."
    name = type(error).__name__
    return f"{name}: {line}" if line else name


def _missing_package(error: BaseException) -> str | None:
    """Return what to install where Triton cannot compile the C modules that launch kernels; None
    for other errors."""
    if isinstance(error, RuntimeError) and "Failed to find C compiler" in str(error):
        return "Triton compiles a C module before its first launch and finds no C compiler: install the package gcc"
    if not isinstance(error, CalledProcessError) or not any(
        str(part).endswith(".c") for part in error.cmd
    ):
        return None
    folder = Path(sysconfig.get_paths()["include"])
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    if (folder / "Python.h").exists():
        return f"Triton's C module does not compile, for the reasons that {error.cmd[0]} has printed to stderr"
    package = f"install the package {python}-dev (Debian, Ubuntu) or {python}-devel (Fedora)"
    return f"Triton compiles a C module before its first launch, and {folder} has no Python.h: {package}"


def trains(operator: str, *sizes: int) -> bool:
    """Return whether the kernels of an operator's `training_triton.py` run on this GPU at these
    sizes; log why not."""
    return _trains(operator, *sizes)


@cache
def _trains(operator: str, *sizes: int) -> bool:
    device = torch.device(TRAINING)
    reason = missing(device)
    if reason is None:
        # Only a run shows whether the kernels compile and fit the GPU.
        try:
            with torch.enable_grad():
                import_module(f"scanline.kernels.{operator}.training_triton").run_once(
                    device, *sizes
                )
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            return True
        except Exception as error:  # of the compiler, the assembler, the driver or torch
            reason = summary(error)
    log.warning("%s of %s, with gradients: by torch, which is slower (%s)", operator, sizes, reason)
    return False


@contextmanager
def reported_compilation() -> Iterator[None]:
    """Inside, log how many kernels Triton has compiled: the first at once, then every few seconds.
    Those that it finds in its cache, in milliseconds, are not counted."""
    from triton import knobs

    before = knobs.compilation.listener
    began = time.monotonic()
    reported = -REPORT_SECONDS
    count = 0

    def listen(*, cache_hit: bool, **what: Any) -> None:
        nonlocal reported, count
        if before is not None:
            before(cache_hit=cache_hit, **what)
        count += not cache_hit
        seconds = time.monotonic() - began
        if not cache_hit and seconds - reported >= REPORT_SECONDS:
            reported = seconds
            log.info("compiling kernels for this GPU: %s so far, %.0f s", count, seconds)

    knobs.compilation.listener = listen
    try:
        yield
    finally:
        knobs.compilation.listener = before
    if count:
        seconds = time.monotonic() - began
        log.info(
            "%s kernels compiled in %.0f s; the next start finds them in %s",
            count,
            seconds,
            knobs.cache.dir,
        )
