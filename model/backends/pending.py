"""Pending results of work that a device does on its own."""

from collections.abc import Callable
from time import perf_counter
from typing import Generic, TypeVar

import numpy as np
import torch

Result = TypeVar("Result")


class Pending(Generic[Result]):
    """Work that a device has been given. Its result, or its failure, is there once it has ended."""

    def __init__(self, result: Callable[[], Result]) -> None:
        """`result` waits for the work and returns what came of it; called once at most."""
        self._result = result
        self._ended: Result | None = None
        self._has_ended = False

    @classmethod
    def ended(cls, result: Result) -> "Pending[Result]":
        """Return work that was done at once."""
        return cls(lambda: result)

    def wait(self) -> Result:
        """Return the result, as often as it is asked for; raises what the work has raised."""
        if not self._has_ended:
            self._ended = self._result()
            self._has_ended = True
        return self._ended  # type: ignore[return-value]


def event(*, timed: bool = False) -> torch.cuda.Event:
    """Return an event of a GPU whose `synchronize` sleeps; by default CUDA's waits in a loop, which
    takes a core."""
    return torch.cuda.Event(enable_timing=timed, blocking=True)


def to_device(array: np.ndarray, device: torch.device) -> torch.Tensor:
    """Return an array on a device; on a GPU without waiting for it, elsewhere a view of the array."""
    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


def to_host(tensor: torch.Tensor) -> Pending[torch.Tensor]:
    """Start to copy a tensor to the host: a GPU's into pinned memory, any other is there."""
    if tensor.device.type == "cpu":
        return Pending.ended(tensor)
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    host.copy_(tensor, non_blocking=True)
    copied = event()
    copied.record()

    def arrived() -> torch.Tensor:
        copied.synchronize()
        return host

    return Pending(arrived)


class DeviceClock:
    """The time that a device takes from here to `stop`; where the caller's thread computes, its own
    time."""

    def __init__(self, device: torch.device) -> None:
        self._began = perf_counter()
        self._events = [event(timed=True) for _ in range(2)] if device.type == "cuda" else []
        if self._events:
            self._events[0].record()

    def stop(self) -> Pending[float]:
        """Return the seconds until here, which are known once the device has come so far."""
        if not self._events:
            return Pending.ended(perf_counter() - self._began)
        first, last = self._events
        last.record()

        def seconds() -> float:
            last.synchronize()
            return float(first.elapsed_time(last)) / 1000

        return Pending(seconds)
