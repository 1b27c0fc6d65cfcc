"""Sizes of a run: the models, the numbers of images, the seconds; tiny ones for a run without a GPU."""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from scanline.model import zoo
from scanline.model.bench.run import load
from scanline.model.config import ModelConfig
from scanline.model.formats.checkpoint import load_model, save_model
from scanline.model.network.transformer import Transformer
from scanline.model.training.presets import PRESETS

SHIPPED = ("mnist-small", "cifar10-small")
PAPER = ("mnist", "cifar10")  # the paper's sizes, with random weights
TINY = {
    "height": 2, "width": 2, "layers": 1, "heads": 2, "key_width": 4, "value_width": 4, "feed_forward": 16,
    "components": 2,
}  # fmt: skip
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
    side: int  # of the square products
    read: int  # images that are read, scored or completed together
    judged: int  # images on which 16-bit states are judged

    @property
    def device(self) -> str:
        return "cpu" if self.dry else "cuda"

    def models(self, *names: str) -> tuple[str, ...]:
        """Return the names of models to measure; one that is shipped in a dry run."""
        return SHIPPED[:1] if self.dry else names

    def calls(self, calls: int) -> int:
        """Return the least number of timed calls."""
        return 1 if self.dry else calls


ON_GPU = Sizes(
    dry=False, in_flight=(4096, 10_000, 1024, 256, 64, 8, 1), most=4096, compared=(1, 64, 1024, 4096, 10_000),
    steps=32, seconds=0.3, copied=1 << 30, side=8192, read=256, judged=512,
)  # fmt: skip
DRY = Sizes(
    dry=True, in_flight=(3, 1), most=3, compared=(1, 3), steps=2, seconds=0.0, copied=1 << 12, side=16, read=2,
    judged=2,
)  # fmt: skip


@cache
def model(name: str, sizes: Sizes) -> Transformer:
    """Return a shipped model, or one of the paper's size with random weights; a tiny one in a dry run."""
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
    window = TINY_WINDOW if config.reads == "window" else {}
    waves = {"wave_rows": 1, "wave_columns": 1, "waves": 2} if config.waves else {}
    return replace(config, **TINY, **window, **waves)
