"""Seconds of one image, and images/s, of each method of Tables 1, 2, 4 and 5, with random weights in the paper's form.

softmax and LSH have no state to go on from, so every byte costs a pass over all bytes before it. An image of them would
take minutes to hours: a pass is timed at a few lengths, its growth a + b n + c n^2 fitted to them, and the image is the
sum over its bytes. Stateful softmax keeps keys and values; its steps are timed at five positions. Steps of linear
attention cost the same at every position, and a few of them, or one whole image, are timed. Drawing a byte from the
distribution is counted in all but the passes, where it is next to nothing.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.paper.attentions import AttentionTransformer, attention, unavailable
from benchmarks.paper.results import Point
from scanline.model.bench.baselines import FastTransformers, SoftmaxCache, cache_bytes, missing_library, too_large
from scanline.model.bench.correctness import Reference, make_reference
from scanline.model.bench.measure import Scanline, durations, measure_in_turns, one_image
from scanline.model.config import ModelConfig
from scanline.model.formats.checkpoint import load_model, save_model
from scanline.model.formats.fast_transformers import EXPRESSIBLE
from scanline.model.network.transformer import Transformer
from scanline.model.precision import PrecisionName, precision
from scanline.model.training.presets import PRESETS

POINTS = 4  # lengths at which a pass is timed, the last being that of a whole image
HISTOGRAM = (1.0,) + 255 * (0.0,)  # of the first byte, which the paper's models do not predict
METHODS = ("softmax", "stateful softmax", "lsh-1", "lsh-4", "linear, authors", "linear", "linear, int8")
PRECISIONS: dict[str, PrecisionName] = {"linear": "exact", "linear, int8": "int8"}
GROWING = ("softmax", "stateful softmax", "lsh-1", "lsh-4")  # whose steps cost more from byte to byte


@dataclass(frozen=True)
class Size:
    """A model of the paper, the chunk of its LSH, and the batches that are tried: of passes, of softmax with a cache,
    of linear attention. Each begins with 1."""

    name: str
    config: ModelConfig
    chunk: int
    pass_batches: tuple[int, ...] = (1,)
    cache_batches: tuple[int, ...] = (1, 16, 64)
    linear_batches: tuple[int, ...] = (1, 64, 256)

    def batches(self, method: str) -> tuple[int, ...]:
        if method == "stateful softmax":
            return self.cache_batches
        return self.linear_batches if method.startswith("linear") else self.pass_batches


def papers_form(preset: str, **cut: Any) -> ModelConfig:
    """Return the configuration of a preset of the paper's size as the authors' code has it, without a start token."""
    form: dict[str, Any] = {**EXPRESSIBLE, "first_byte_histogram": HISTOGRAM}
    return replace(PRESETS[preset].model, **form, **cut)


# 27 chunks of 29 positions and 83 of 37 (section 4.2)
SIZES = (Size("mnist", papers_form("mnist"), 29, pass_batches=(1, 4)), Size("cifar10", papers_form("cifar10"), 37))
SMALL = {"layers": 1, "heads": 2, "key_width": 8, "value_width": 8, "feed_forward": 16}
QUICK_SIZES = (
    Size("mnist", papers_form("mnist", height=8, width=8, **SMALL), 9, (1, 2), (1, 2), (1, 2)),
    Size("cifar10", papers_form("cifar10", height=5, width=5, **SMALL), 37, (1,), (1, 2), (1, 2)),
)


def missing(size: Size, method: str, batch: int) -> str | None:
    """Return why a method cannot be measured here; None where it can."""
    if method == "stateful softmax":
        return too_large(size.config, batch, "cpu")
    return missing_library() if method == "linear, authors" else unavailable(method)


def measure(size: Size, method: str, batch: int, seconds: float) -> Point:
    """Return {"images_per_second", "image_seconds": of all images together, "state_bytes": of one image at its last
    position, "extrapolated": whether less than whole images were painted}, from about `seconds` of timed calls."""
    if method == "stateful softmax":
        rate = measure_in_turns({"": SoftmaxCache(model(size), batch)}, seconds)[""]
        return _point(batch, batch / rate.images_per_second, cache_bytes(size.config))
    if method == "linear, authors":
        program = FastTransformers(size.config, batch, "cpu")
        program.measure(seconds)
        state = _bytes(program.state) // batch
        return _point(batch, batch / program.rate().images_per_second, state)
    if method in PRECISIONS:
        return _ours(size, PRECISIONS[method], batch, seconds)
    return _passes(size, method, batch, seconds)


def _bytes(state: Any) -> int:
    """Return the size of the tensors of the library's state, a list of each layer's."""
    return sum(part.nbytes for layer in state for part in layer)


def _point(batch: int, image_seconds: float, state_bytes: int, extrapolated: bool = True) -> Point:
    return {
        "images_per_second": batch / image_seconds,
        "image_seconds": image_seconds,
        "state_bytes": state_bytes,
        "extrapolated": extrapolated,
    }


def _ours(size: Size, name: PrecisionName, batch: int, seconds: float) -> Point:
    network, state = model(size), precision(name).state_bytes(size.config)
    checked = reference(size, name)
    if batch == 1:
        return _point(1, one_image(network, seconds, checked, name)["seconds_median"], state, extrapolated=False)
    rate = measure_in_turns({"": Scanline(network, batch, checked, name)}, seconds)[""]
    return _point(batch, batch / rate.images_per_second, state)


def _passes(size: Size, method: str, batch: int, seconds: float) -> Point:
    """A whole pass for each byte, timed at POINTS lengths, each a multiple of LSH's chunk."""
    chunk = size.chunk if method.startswith("lsh") else 1
    config = size.config
    network = AttentionTransformer(config, attention(method, chunk)).eval()
    images = torch.randint(0, 256, (batch, config.bytes), dtype=torch.uint8)
    times: dict[int, float] = {}
    for length in lengths(config.steps, chunk):
        call: Callable[[], object] = partial(network.parallel, images, stop=config.first + length)
        with torch.no_grad():
            times[length] = float(np.median(durations(call, seconds / POINTS, minimum_calls=1)))
    total = summed(times, config.steps, chunk)
    return {**_point(batch, total, 0), "passes": {str(length): times[length] for length in times}}


def lengths(steps: int, chunk: int) -> list[int]:
    """Return about POINTS lengths up to `steps`, all multiples of `chunk`, which divides `steps`."""
    chunks = steps // chunk
    return sorted({chunk * max(1, round(chunks * part / POINTS)) for part in range(1, POINTS + 1)})


def summed(times: dict[int, float], steps: int, chunk: int) -> float:
    """Return the seconds of passes over 1, 2, ... `steps` bytes, each over whole chunks, from those at a few lengths.

    The growth is a + b n + c n^2, by least squares of the relative error; its degree is lower with fewer lengths.
    """
    measured = np.array(list(times)) / steps
    seconds = np.array(list(times.values()))
    fitted = np.polyfit(measured, seconds, min(2, len(times) - 1), w=1 / seconds)
    passes = -(-np.arange(1, steps + 1) // chunk) * chunk / steps
    return float(np.maximum(np.polyval(fitted, passes), 0.0).sum())


@cache
def model(size: Size) -> Transformer:
    """Return the model of a size with random weights, written and loaded, so that they are stored as any model's."""
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        save_model(Transformer(size.config), Path(folder))
        return load_model(Path(folder))


@cache
def reference(size: Size, name: PrecisionName) -> Reference:
    """Return the images that every measurement of ours must reproduce."""
    return make_reference(model(size), [batch for batch in size.linear_batches if batch > 1], name)
