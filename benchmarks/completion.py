"""Completions by 1, 4, 16 and 64 particles: what known pixels cost, how recognisable digits are, how long they take.

    python -m benchmarks.completion --data FOLDER [--sets mnist cifar10] [--images 200 50]

The first test digits and colour images (FOLDER/mnist and FOLDER/cifar10, as `scanline train` reads them) are completed
behind four masks by the shipped models. `evidence` is the estimate of -log2 p(known pixels), in bits for each known
byte: the lower, the better the hidden pixels fit those after them. `after` is the same of the known bytes after the
first hidden one alone; those before it cost every completion the same. `original` is what the same bytes cost given
the true hidden pixels: no bound, but what a completion that fits as well as the original has. `class` is the share of
completions that the report's classifier gives the digit's label; `seconds` is the time of all images by their number,
many at a time; `resampling` is its share of weighing, drawing and copying particles; `least` is the smallest effective
number of particles of any image on the way.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

from scanline.model import datasets, zoo
from scanline.model.backends.backend import Backend
from scanline.model.backends.particles import Groups
from scanline.model.backends.slots import SlotPool
from scanline.model.config import ModelConfig
from scanline.model.evaluation.classifier import Classifier, classify
from scanline.model.evaluation.classifier_cache import cached_classifier
from scanline.model.evaluation.comparison import LabelledData
from scanline.model.evaluation.metrics import standard_error
from scanline.model.formats.checkpoint import load_model
from scanline.model.machine import print_json
from scanline.model.network.transformer import Transformer
from scanline.model.resources import limit_torch_threads
from scanline.model.resources import threads as all_threads
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import Finished, GenerateRequest
from scanline.model.tasks.offline import run

SEED = 0


MASKS = ("band", "left half", "random half", "centre")


def known_pixels(mask: str, config: ModelConfig, index: int) -> np.ndarray:
    """Return which pixels [H, W] bool of an image a mask leaves known."""
    height, width = config.height, config.width
    row, column = np.indices((height, width))
    if mask == "band":  # two sevenths of the rows are hidden, above the middle: rows 9 to 16 of a digit
        return (row < 2 * height // 7) | (row >= 4 * height // 7)
    if mask == "left half":
        return column >= width // 2
    if mask == "random half":  # half of the pixels are hidden, other ones of every image
        order = np.random.default_rng([SEED, index]).permutation(height * width)
        return (order < height * width // 2).reshape(height, width)
    rows, columns = height // 4, width // 4  # a square of half the height is hidden
    return (row < rows) | (row >= height - rows) | (column < columns) | (column >= width - columns)


@dataclass
class Completed:
    """Completions of n images by so many particles."""

    images: np.ndarray  # [n, N] uint8
    evidence_bits: np.ndarray  # [n] float64
    effective_particles: np.ndarray  # [n] float64
    seconds: float = 0.0  # of all
    resampling: float = 0.0  # of these, in resampling and choosing particles


class Resampling:
    """Times what a generator's backend spends on particles."""

    def __init__(self, backend: Backend) -> None:
        self.seconds = 0.0
        for name in ("resample", "choose"):
            setattr(backend, name, self._timed(getattr(backend, name)))

    def _timed(self, call: Callable[[SlotPool, Groups], None]) -> Callable[[SlotPool, Groups], None]:
        def timed(pool: SlotPool, groups: Groups) -> None:
            began = perf_counter()
            call(pool, groups)
            self.seconds += perf_counter() - began

        return timed


def complete(
    generator: Generator, images: np.ndarray, known: np.ndarray, particles: int, resampling: Resampling
) -> Completed:
    """Complete images [n, N] uint8 whose bytes `known` [n, N] bool are given."""
    n = len(images)
    completed = Completed(np.empty_like(images), np.empty(n), np.empty(n))
    given = tuple(map(bytes, np.where(known, images, 0)))
    request = GenerateRequest(0, n, SEED, known=given, masks=tuple(map(bytes, known)), particles=particles)
    before, began = resampling.seconds, perf_counter()
    for events in run(Engine(generator), request):
        for event in events:
            if isinstance(event, Finished):
                completed.images[event.index] = np.frombuffer(event.image, np.uint8)
                completed.evidence_bits[event.index] = event.evidence_bits
                completed.effective_particles[event.index] = event.effective_particles
    completed.seconds, completed.resampling = perf_counter() - began, resampling.seconds - before
    return completed


def measure(
    model: Transformer,
    images: np.ndarray,
    particles: list[int],
    threads: int,
    label_share: Callable[[np.ndarray], float | None],
) -> list[dict[str, Any]]:
    """Return a row of results for each mask and number of particles, of images [n, N]."""
    config, rows = model.config, []
    generator = Generator(model, 128 * threads, threads)
    resampling = Resampling(generator.backend)
    try:
        original_bits = generator.score(images)
        for name in MASKS:
            pixels = np.stack([known_pixels(name, config, index) for index in range(len(images))])
            known = np.repeat(pixels.reshape(len(images), -1), config.channels, axis=1)
            after = known & np.maximum.accumulate(~known, axis=1)
            before_bits = (original_bits * (known & ~after)).sum(axis=1)
            for count in particles:
                completed = complete(generator, images, known, count, resampling)
                assert (completed.images == images)[known].all(), "a known byte has changed"
                evidence = completed.evidence_bits / known.sum(axis=1)
                rows.append(
                    {
                        "mask": name,
                        "particles": count,
                        "evidence": float(evidence.mean()),
                        "standard_error": standard_error(evidence),
                        "original": float(((original_bits * known).sum(axis=1) / known.sum(axis=1)).mean()),
                        "after": float(((completed.evidence_bits - before_bits) / after.sum(axis=1)).mean()),
                        "original_after": float(((original_bits * after).sum(axis=1) / after.sum(axis=1)).mean()),
                        "class": label_share(completed.images),
                        "seconds": completed.seconds / len(images),
                        "resampling": completed.resampling / completed.seconds,
                        "least": float(completed.effective_particles.min()),
                        "median": float(np.median(completed.effective_particles)),
                    }
                )
                print(f"{name}, {count} particles: {completed.seconds:.1f} s", flush=True)
    finally:
        generator.close()
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows in Markdown."""
    lines = [
        "| mask | particles | evidence | original | after | original after | class | seconds | resampling | least |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        share = "" if row["class"] is None else f"{100 * row['class']:.1f} %"
        bits = [f"{row[name]:.3f}" for name in ("evidence", "original", "after", "original_after")]
        cost = [f"{row['seconds']:.2f}", f"{100 * row['resampling']:.1f} %", f"{row['least']:.1f}"]
        lines.append("| " + " | ".join([row["mask"], str(row["particles"]), *bits, share, *cost]) + " |")
    return "\n".join(lines)


def classifier_of(name: str, folder: Path, config: ModelConfig, cache: Path | None) -> Classifier:
    """Return the report's classifier of a set, trained where it is not cached."""
    sets = [datasets.load(name, folder, split) for split in ("train", "test")]
    labels = [datasets.labels(name, folder, split, part) for split, part in zip(("train", "test"), sets, strict=True)]
    data = LabelledData(name, sets[0], labels[0], sets[1], labels[1])
    return cached_classifier(data, config, cache, torch.device("cpu"), lambda *_: lambda done: None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="directory with a directory of each set's files")
    parser.add_argument("--sets", nargs="+", default=["mnist", "cifar10"], choices=list(datasets.DATASETS))
    parser.add_argument("--images", nargs="+", type=int, default=[200, 50], help="of each set, in the order of --sets")
    parser.add_argument("--particles", nargs="+", type=int, default=[1, 4, 16, 64])
    parser.add_argument("--threads", type=int, default=all_threads())
    parser.add_argument("--cache", type=Path, help="directory of trained classifiers")
    options = parser.parse_args()
    limit_torch_threads()  # as in an engine's process
    if len(options.images) < len(options.sets):
        parser.error("--images needs a number for each set")

    results = {}
    for name, count in zip(options.sets, options.images, strict=False):
        model = load_model(zoo.find(f"{name}-small"))
        test = datasets.load(name, options.data / name, "test")
        images, share = test[:count], _no_share
        if name == "mnist":
            labels = datasets.labels(name, options.data / name, "test", test)[:count]
            classifier = classifier_of(name, options.data / name, model.config, options.cache)
            share = _label_share(classifier, labels)
        rows = measure(model, images, options.particles, options.threads, share)
        results[name] = {"images": len(images), "original_class": share(images), "rows": rows}
        seen = f"; the originals: {100 * share(images):.1f} %" if share is not _no_share else ""
        print(f"\n{name}, {len(images)} images, {options.threads} threads{seen}\n\n{table(rows)}\n")
    print_json("completion", vars(options), results=results)


def _no_share(images: np.ndarray) -> None:
    """Colour images are not classified: the classifier sees too few of them rightly."""


def _label_share(classifier: Classifier, labels: np.ndarray) -> Callable[[np.ndarray], float]:
    return lambda images: float((classify(classifier, images).classes == labels).mean())


if __name__ == "__main__":
    main()
