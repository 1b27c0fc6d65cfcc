"""Ways to run a network, one class a file: `native` (a CPU's own library), `cuda` (Triton), `eager` (torch, anywhere).

The way is chosen once and told once; a test may force it.
"""

import logging
from functools import cache
from importlib.util import find_spec
from typing import Protocol

import torch

from scanline.kernels import cpu as cpu_kernels
from scanline.model.backends.slots import SlotPool
from scanline.model.network.transformer import Transformer
from scanline.model.precision import DEFAULT, precision
from scanline.model.state import State

LEAST_GPU = (9, 0)  # compute capability; the kernels' programs fill the shared memory of a Hopper

log = logging.getLogger("scanline.model")


class Backend(Protocol):
    """One network made ready for one device. An image's arithmetic never depends on its company."""

    name: str  # for people: what computes, and how
    rows: int  # seats are taken in multiples of this
    state_dtype: torch.dtype  # of s between steps

    def warm_up(self, slots: SlotPool) -> None:
        """Makes ready all that a call for these slots may need; touches no image."""

    def advance(self, slots: SlotPool, steps: int) -> None:
        """Paints up to `steps` bytes of every image that is not done, IN PLACE."""

    def read(self, images: torch.Tensor, state: State, stop: int) -> torch.Tensor:
        """Runs known bytes of images [B, N] uint8, from the state's position (the same for all) to stop - 1.

        Returns the bits [B, n] float64 that each of them costs; `state` is moved to `stop` IN PLACE.
        """

    def close(self) -> None:
        """Ends its threads."""


def choose(
    model: Transformer, threads: int | None = None, precision_name: str = DEFAULT, backend: str | None = None
) -> Backend:
    """The fastest way for the model's device, or `backend`; ValueError where it cannot run in that precision."""
    wanted = precision(precision_name)
    backend = backend or best_backend(model.device.type)
    if backend == "cpu":
        from scanline.model.backends.cpu import CpuBackend

        return _told(CpuBackend(model, threads, wanted))
    if wanted.int8_weights:
        raise ValueError(f"precision {precision_name!r} needs the native step, on a CPU")
    if backend == "cuda":
        from scanline.model.backends.cuda import CudaBackend

        return _told(CudaBackend(model, wanted.state_dtype))
    from scanline.model.backends.eager import EagerBackend

    if wanted.float16_state:
        raise ValueError(f"precision {precision_name!r} needs the native step or Triton; the torch path is exact only")
    return _told(EagerBackend(model, threads))


@cache
def best_backend(device: str) -> str:
    """native on a CPU, cuda on a GPU; torch where the library was not compiled, or the GPU or Triton does not do."""
    if device == "cpu":
        if cpu_kernels.available():
            return "cpu"
        log.warning("%s: the slower torch path serves", cpu_kernels.unavailable_reason())
        return "eager"
    capability = torch.cuda.get_device_capability()
    if find_spec("triton") and capability >= LEAST_GPU and torch.version.hip is None:
        return "cuda"
    log.warning("our GPU kernels need Triton and an NVIDIA GPU from Hopper on: the slower torch path serves")
    return "eager"


@cache
def _tell(name: str) -> None:
    log.info("steps are run by %s", name)


def _told(backend: Backend) -> Backend:
    _tell(backend.name)
    return backend
