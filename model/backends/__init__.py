"""Backends run a network on a device, one class a file: `cpu` (our C++ library), `cuda` (our Triton
kernels), `eager` (torch operations, anywhere).

`open_backend` tries them from the fastest to the slowest and returns the first that works on this
machine. On a GPU a backend has to compile, launch and pass the self-test (self_test.py) before it
is used. Whatever fails on the way is one line in the log, and the next backend is tried.
"""

import copy
import gc
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

import torch

from scanline.kernels import cpu as cpu_kernels
from scanline.kernels import gpu
from scanline.kernels.codec.coder import longest_code
from scanline.model.backends.backend import Backend
from scanline.model.backends.self_test import run_self_test
from scanline.model.backends.slots import SlotPool
from scanline.model.base import resources
from scanline.model.base.device import HOPPER, ON_CPU, ON_GPU
from scanline.model.base.precision import DEFAULT, Precision, precision
from scanline.model.network.transformer import Transformer

log = logging.getLogger("scanline.model")

TRITON = ("cuda", "cuda-unchained", "cuda-narrow")  # in Triton's interpreter on a CPU, for tests
# all with the bits of the last one; of few images the first two have narrow products anyway
INT8 = ("cuda", "cuda-unchained", "cpu")


class NoRoomError(ValueError):
    """The slots do not fit into the memory that is free; the message is one sentence with numbers."""


@dataclass(frozen=True)
class OpenBackend:
    """A backend that is ready to paint, and its slots, which are all free."""

    name: str  # one of ON_GPU or ON_CPU
    fallbacks: tuple[str, ...]  # for each faster backend that was tried, "name: why it is not used"
    backend: Backend
    slots: SlotPool
    model: Transformer  # that it runs: the caller's, or a copy of it on the CPU


def open_backend(
    model: Transformer,
    slots: int,
    threads: int | None = None,
    precision_name: str = DEFAULT,
    backend: str | None = None,
) -> OpenBackend:
    """Return the first backend that works, with at least `slots` slots.

    backend: the name of the only one to try, or several names separated by commas; by default all
    of the model's device, then those of the CPU. threads: of the cpu backend, all of torch's by
    default; the others compute in one. ValueError with one sentence where none works, where none
    has the precision, or where the slots need more memory than there is.
    """
    chosen = precision(precision_name)
    candidates = _candidates(model.device.type, backend, precision_name)
    # The model on the CPU is the reference of the self-test, and what the CPU's backends run.
    on_cpu = model
    if model.device.type != "cpu":
        on_cpu = copy.deepcopy(model).cpu()  # now: a GPU may fail for good
    fallbacks: list[str] = []
    for name, device in candidates:
        network = on_cpu if device == "cpu" else model
        # A backend is not used for a reason that is known beforehand, or for its failure.
        reason = _missing(name, network.device)
        if reason is None:
            try:
                opened, pool = _try_backend(name, network, slots, threads, chosen, on_cpu)
            except NoRoomError:
                raise
            except Exception as error:  # of compilers, drivers and torch, in classes of their own
                if not _needs_self_test(name, network.device):
                    raise
                reason = gpu.summary(error)
                log.debug("the backend %s failed", name, exc_info=error)
            else:
                _log_once(logging.INFO, f"steps are run by {opened.name}")
                return OpenBackend(name, tuple(fallbacks), opened, pool, network)
        fallbacks.append(f"{name}: {reason}")
        if len(candidates) > 1:
            _log_once(logging.WARNING, f"the backend {name} is not used: {reason}")
        # The next backend needs the memory of the one that failed.
        gc.collect()
        with suppress(RuntimeError):  # some failures end all use of the GPU by this process
            torch.cuda.empty_cache()
    if len(candidates) == 1:
        raise ValueError(f"the backend {fallbacks[0]}")
    raise ValueError(f"no backend works here: {'; '.join(fallbacks)}")


def _candidates(device: str, backend: str | None, precision_name: str) -> list[tuple[str, str]]:
    """Return the backends to try, each with its device; ValueError where none of them has the
    precision."""
    if backend is not None:
        names: Sequence[str] = backend.split(",")
    else:
        names = ON_GPU if device == "cuda" else ON_CPU
    candidates = [(name, "cpu" if name == "cpu" else device) for name in names]
    chosen = precision(precision_name)
    if backend is None and device == "cuda":
        candidates += [(name, "cpu") for name in ON_CPU]
    if chosen.bfloat16_state:
        candidates = [(name, on) for name, on in candidates if name in TRITON and on == "cuda"]
        if not candidates:
            needed = f"one of the backends {', '.join(TRITON)}"
            if device == "cpu":
                needed = "a GPU"
            raise ValueError(f"precision {precision_name!r} needs {needed}")
    elif chosen.int8_weights:
        candidates = [(name, on) for name, on in candidates if name in INT8]
        if not candidates:
            raise ValueError(
                f"precision {precision_name!r} needs one of the backends {', '.join(INT8)}"
            )
    return candidates


def _missing(name: str, device: torch.device) -> str | None:
    """Return why a backend cannot work, as far as that can be asked without trying it."""
    if name == "cpu":
        return cpu_kernels.unavailable_reason()
    if name not in TRITON or device.type == "cpu":
        return None
    if name == "cuda" and torch.cuda.get_device_capability(device) < HOPPER:
        return f"{torch.cuda.get_device_name(device)} cannot chain launches"
    return gpu.missing(device)


def _try_backend(
    name: str,
    model: Transformer,
    slots: int,
    threads: int | None,
    chosen: Precision,
    reference: Transformer,
) -> tuple[Backend, SlotPool]:
    """Return a backend that works, and its free slots; NoRoomError where they need too much memory,
    any other exception where the backend fails. Nothing that it held is left then."""
    free = _free_memory(model.device)
    rows = slots
    backend = None
    try:
        backend = _new_backend(name, model, threads, chosen)
        rows = -(-slots // backend.rows) * backend.rows
        pool = SlotPool.empty(
            model.config, rows, model.device, backend.state_dtype, backend.deferred
        )
        backend.warm_up(pool)
        if _needs_self_test(name, model.device):
            run_self_test(backend, pool, reference)
    except Exception as error:
        if backend is not None:
            backend.close()
        if _out_of_memory(error):
            raise NoRoomError(_no_room(rows, model, chosen, free)) from None
        raise
    return backend, pool


def _new_backend(name: str, model: Transformer, threads: int | None, chosen: Precision) -> Backend:
    if name == "cpu":
        from scanline.model.backends.cpu import CpuBackend

        return CpuBackend(model, threads, chosen)
    if name in TRITON:
        from scanline.model.backends.cuda import CudaBackend

        return CudaBackend(
            model,
            chosen.state_dtype,
            chained=name == "cuda",
            narrow=name == "cuda-narrow",
            int8_weights=chosen.int8_weights,
        )
    if name == "eager":
        from scanline.model.backends.eager import EagerBackend

        return EagerBackend(model)
    raise ValueError(f"there is no backend {name!r}")


def _needs_self_test(name: str, device: torch.device) -> bool:
    """Return whether a backend must pass the self-test; our compiled library and torch on a CPU
    need none."""
    return device.type == "cuda" or name in TRITON


def _free_memory(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return resources.free_memory()


def _out_of_memory(error: Exception) -> bool:
    # torch has a class for its own allocator on a GPU alone, not for the driver's or a CPU's
    is_known = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return is_known or "out of memory" in str(error) or "can't allocate memory" in str(error)


def _no_room(rows: int, model: Transformer, chosen: Precision, free: int) -> str:
    length = model.config.bytes  # of an image, and of its mask
    state = chosen.state_bytes(model.config, model.device.type)
    slot = state + 2 * length + longest_code(length)
    most = int(0.8 * free / slot)
    return (
        f"{rows:,} slots of {slot:,} bytes, and the buffers of a step and a prefill, do not fit into the {free:,} bytes"
        f" that are free on the {model.device.type}; at most about {most:,} slots do"
    )


@cache
def _log_once(level: int, line: str) -> None:
    log.log(level, line)
