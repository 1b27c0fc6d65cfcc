"""Setup of a run: models and numbers of images (tiny ones for a run without a GPU), times of calls
on the device, and generators whose backend is made with the arguments of a measurement."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import torch

from benchmarks.gpu.results import Finding
from scanline.kernels.gpu import summary
from scanline.model import zoo
from scanline.model.backends import OpenBackend
from scanline.model.backends.cuda import CudaBackend, CudaOptions
from scanline.model.backends.slots import SlotPool
from scanline.model.base.config import ModelConfig
from scanline.model.bench.measure import place_all, step_durations
from scanline.model.bench.run import load
from scanline.model.formats.checkpoint import load_model, save_model
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.base import generator as generator_module
from scanline.model.sampling.base.generator import Generator
from scanline.model.training.presets import PRESETS

SHIPPED = ("mnist-small", "cifar10-small")
PAPER = ("mnist", "cifar10")  # the paper's sizes, with random weights
TINY = {
    "height": 2,
    "width": 2,
    "layers": 1,
    "heads": 2,
    "key_width": 4,
    "value_width": 4,
    "feed_forward": 16,
    "components": 2,
}
TINY_WINDOW = {"blocks": 1, "block_width": 16, "window_rows": 1, "window_columns": 1}


@dataclass(frozen=True)
class Sizes:
    """Of one run."""

    dry: bool  # Triton's interpreter on a CPU, tiny
    in_flight: tuple[int, ...]  # numbers of images whose rate is measured
    most: int  # images that a graph takes, and of the engine loop
    compared: tuple[int, ...]  # numbers of images whose bits are compared
    steps: int  # of one timed call
    seconds: float  # for each number
    copied: int  # bytes of a copy, more than any cache
    read: int  # images that are read, scored or completed together
    judged: int  # images that are scored in one call, and on which 16-bit states are judged
    # Options of the backend that an earlier part of the run has found to be the fastest.
    fastest: dict[str, Any] = field(default_factory=dict, compare=False)

    @property
    def device(self) -> str:
        return "cpu" if self.dry else "cuda"

    def models(self, *names: str) -> tuple[str, ...]:
        """Return the names of models to measure; one that is shipped in a dry run."""
        return SHIPPED[:1] if self.dry else names

    def few(self, *counts: int) -> tuple[int, ...]:
        """Return small numbers of images to measure; one of them in a dry run."""
        return counts[:1] if self.dry else counts

    def calls(self, calls: int) -> int:
        """Return the least number of timed calls."""
        return 1 if self.dry else calls


ON_GPU = Sizes(
    dry=False,
    in_flight=(4096, 10_000, 1024, 256, 64, 8, 1),
    most=4096,
    compared=(1, 64, 1024, 4096, 10_000),
    steps=32,
    seconds=0.3,
    copied=1 << 30,
    read=256,
    judged=512,
)
DRY = Sizes(
    dry=True,
    in_flight=(3, 1),
    most=3,
    compared=(1, 3),
    steps=2,
    seconds=0.0,
    copied=1 << 12,
    read=2,
    judged=2,
)


@cache
def model(name: str, sizes: Sizes) -> Transformer:
    """Return a shipped model, or one of the paper's size with random weights; a tiny one in a dry
    run."""
    if not sizes.dry:
        return load(name, None, "cuda") if name in SHIPPED else load(None, name, "cuda")
    torch.manual_seed(0)
    with TemporaryDirectory() as folder:
        save_model(Transformer(tiny(PRESETS[name].model)), Path(folder))
        return load_model(Path(folder), "cpu")


def config(name: str, sizes: Sizes) -> ModelConfig:
    """Return the configuration of `model`, without its weights."""
    if sizes.dry:
        return tiny(PRESETS[name].model)
    if name in SHIPPED:
        return load_model(zoo.find(name), "cpu").config
    return PRESETS[name].model


def tiny(config: ModelConfig) -> ModelConfig:
    """Return a configuration of the same kind for four pixels."""
    window = TINY_WINDOW if config.step == "pixel" else {}
    waves = {"wave_rows": 1, "wave_columns": 1, "waves": 2} if config.waves else {}
    return replace(config, **TINY, **window, **waves)


DRY_OPTIONS: dict[str, Any] = {
    "sizes": (1, 4),
    "steps": 2,
    "few": 2,
    "prefill_graphs": ((1, 8), (2, 4)),
}
STATES = (torch.float32, torch.bfloat16)


def make_generator(
    model: Transformer,
    slots: int,
    state_dtype: torch.dtype = torch.float32,
    *,
    chained: bool = True,
    narrow: bool = False,
    int8_weights: bool = False,
    ready: bool = True,
    **options: Any,
) -> Generator:
    """Return a generator on the CUDA backend with these CudaOptions, ready as a server's is; in a
    dry run too.

    Where it need not be `ready`, each graph is recorded by the first call that needs it.
    """
    if model.device.type == "cpu":
        options = {**DRY_OPTIONS, **options}
    backend = CudaBackend(model, state_dtype, chained, CudaOptions(**options), narrow, int8_weights)
    pool = SlotPool.empty(model.config, slots, model.device, state_dtype, backend.deferred)
    if ready:
        backend.warm_up(pool)
    name = "cuda"
    if not chained:
        name = "cuda-narrow" if narrow else "cuda-unchained"
    opened = OpenBackend(name, (), backend, pool, model)
    with mock.patch.object(generator_module, "open_backend", return_value=opened):
        return Generator(model, slots)


def started(
    model: Transformer, slots: int, state_dtype: torch.dtype = torch.float32, **options: Any
) -> Generator:
    """Return a generator that paints and reads nothing, with image i of one seed in slot i."""
    generator = make_generator(model, slots, state_dtype, ready=False, **options)
    place_all(generator)
    return generator


def step_seconds(generator: Generator, sizes: Sizes) -> list[float]:
    """Return the seconds of a step of all images, one for each timed call of `sizes.steps`
    steps."""
    steps = min(sizes.steps, generator.config.steps)
    return step_durations(generator, sizes.seconds, steps, sizes.calls(5))


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
