"""Backends run a network on a device, one class a file: `cpu` (our C++ library), `cuda` (our Triton kernels), `eager`
(torch operations, anywhere).

The backend is chosen once, by the device and what is installed, and logged once; a test may force it.
"""

import logging
from functools import cache
from importlib.util import find_spec

import torch

from scanline.kernels import cpu as cpu_kernels
from scanline.model.backends.backend import Backend
from scanline.model.device import HOPPER
from scanline.model.network.transformer import Transformer
from scanline.model.precision import DEFAULT, precision

log = logging.getLogger("scanline.model")


def choose(
    model: Transformer, threads: int | None = None, precision_name: str = DEFAULT, backend: str | None = None
) -> Backend:
    """Returns the fastest backend for the model's device, or the one named; ValueError where it lacks the precision.

    `threads` are those of the cpu backend, all of torch's by default; the others compute in one.
    """
    chosen = precision(precision_name)
    backend = backend or best_backend(model.device.type)
    if chosen.float16_state and model.device.type == "cpu":
        raise ValueError(f"precision {precision_name!r} needs a GPU")
    if chosen.int8_weights and backend != "cpu":
        raise ValueError(f"precision {precision_name!r} needs the cpu kernel")
    if chosen.float16_state and backend != "cuda":
        raise ValueError(f"precision {precision_name!r} needs Triton and an NVIDIA GPU from Hopper on")
    if backend == "cpu":
        from scanline.model.backends.cpu import CpuBackend

        return _logged(CpuBackend(model, threads, chosen))
    if backend == "cuda":
        from scanline.model.backends.cuda import CudaBackend

        return _logged(CudaBackend(model, chosen.state_dtype))
    from scanline.model.backends.eager import EagerBackend

    return _logged(EagerBackend(model))


@cache
def best_backend(device: str) -> str:
    """Returns "cpu" on a CPU, "cuda" on a GPU; "eager" without the compiled library, without Triton, or on a GPU that
    the kernels are not made for."""
    if device == "cpu":
        if cpu_kernels.available():
            return "cpu"
        log.warning("%s: the slower torch backend is used", cpu_kernels.unavailable_reason())
        return "eager"
    capability = torch.cuda.get_device_capability()
    if find_spec("triton") and capability >= HOPPER and torch.version.hip is None:
        return "cuda"
    log.warning("the GPU kernels need Triton and an NVIDIA GPU from Hopper on: the slower torch backend is used")
    return "eager"


def _logged(backend: Backend) -> Backend:
    _log_once(backend.name)
    return backend


@cache
def _log_once(name: str) -> None:
    log.info("steps are run by %s", name)
