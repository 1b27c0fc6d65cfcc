"""Times of calls on the device, and generators whose backend is made with the arguments of a measurement."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import torch

from benchmarks.gpu.results import Finding
from benchmarks.gpu.sizes import Sizes
from scanline.kernels.gpu import summary
from scanline.model.backends import OpenBackend
from scanline.model.backends.cuda import CudaBackend, CudaOptions
from scanline.model.backends.slots import SlotPool
from scanline.model.bench.measure import device_durations, place_all, step_durations
from scanline.model.network.transformer import Transformer
from scanline.model.sampling import generator as generator_module
from scanline.model.sampling.generator import Generator

DRY_OPTIONS: dict[str, Any] = {"sizes": (1, 4), "steps": 2, "few": 2, "reads": 2, "read_rows": 8}
STATES = (torch.float32, torch.float16)


def microseconds(call: Callable[[], object], sizes: Sizes, calls: int = 10) -> float:
    """Return the median time of a call without the host's."""
    return 1e6 * float(np.median(device_durations(call, 0.0, sizes.device, sizes.calls(9), calls)))


def make_generator(
    model: Transformer,
    slots: int,
    state_dtype: torch.dtype = torch.float32,
    *,
    chained: bool = True,
    ready: bool = True,
    **options: Any,
) -> Generator:
    """Return a generator on the CUDA backend with these CudaOptions, ready as a server's is; in a dry run too.

    Where it need not be `ready`, each graph is recorded by the first call that needs it.
    """
    if model.device.type == "cpu":
        options = {**DRY_OPTIONS, **options}
    backend = CudaBackend(model, state_dtype, chained, CudaOptions(**options))
    pool = SlotPool.empty(model.config, slots, model.device, state_dtype)
    if ready:
        backend.warm_up(pool)
    opened = OpenBackend("cuda" if chained else "cuda-unchained", (), backend, pool, model)
    with mock.patch.object(generator_module, "open_backend", return_value=opened):
        return Generator(model, slots)


def started(model: Transformer, slots: int, state_dtype: torch.dtype = torch.float32, **options: Any) -> Generator:
    """Return a generator that paints and reads nothing, with image i of one seed in slot i."""
    generator = make_generator(model, slots, state_dtype, ready=False, **options)
    place_all(generator)
    return generator


def step_seconds(generator: Generator, sizes: Sizes) -> list[float]:
    """Return the seconds of a step of all images, one for each timed call of `sizes.steps` steps."""
    return step_durations(generator, sizes.seconds, min(sizes.steps, generator.config.steps), sizes.calls(5))


def bits_of(dtype: torch.dtype) -> str:
    """Return the name of a type in a finding's name."""
    return str(dtype).removeprefix("torch.")


def attempt(name: str, measure: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """Yield the findings of a measurement; where it fails, a finding `name` with the reason.

    An error of the device is raised: after it nothing in this process can be trusted.
    """
    try:
        yield from measure()
    except torch.AcceleratorError:
        raise
    except Exception as error:
        yield Finding(name, None, note=summary(error))
