"""The evaluation of a model directory: bits/dim of the test set, measurements of its classes and,
where samples are requested, their comparison with test images, with a table of guidance."""

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scanline.model import datasets
from scanline.model.base.config import ModelConfig
from scanline.model.base.device import AUTO, resolve_backend
from scanline.model.base.inputs import MAX_SEED
from scanline.model.base.precision import DEFAULT
from scanline.model.base.sampling_options import SamplingParams, check_guidance
from scanline.model.datasets.classes import Labels
from scanline.model.datasets.source import open_for
from scanline.model.datasets.sources import Refused
from scanline.model.evaluation import classes
from scanline.model.evaluation.classifier import classify
from scanline.model.evaluation.classifier_cache import cached_classifier
from scanline.model.evaluation.comparison import LabelledData, Stage, check_counts, compare
from scanline.model.evaluation.guidance import guidance_figures
from scanline.model.evaluation.inpainting import inpainting_figures
from scanline.model.evaluation.likelihood import bits_per_dim
from scanline.model.evaluation.metrics import quality, seed_figures, test_figures
from scanline.model.evaluation.unlike import other_pictures, unlike_figures
from scanline.model.formats.checkpoint import load_model
from scanline.model.formats.model_dir import read_defaults, write_evaluation
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.base.generator import Generator
from scanline.model.tasks.offline import RunOptions

log = logging.getLogger("scanline.evaluation")

SAMPLES = 2000  # of a model of a published set


def evaluate(
    directory: Path,
    data: Path,
    *,
    images: int | None = None,
    samples: int | None = None,
    classified: int | None = None,
    class_samples: int | None = None,
    guidance: Sequence[float] = (),
    best_of: Sequence[int] = (),
    completed: int = 0,
    unlike: Sequence[Path] = (),
    cache: Path | None = None,
    seed: int = 0,
    seeds: int = 1,
    precision: str = DEFAULT,
    backend: str = AUTO,
    device: torch.device | str = "auto",
    save: bool = False,
    stage: Stage = lambda what, total, unit: lambda done: None,
) -> dict[str, Any]:
    """Return what evaluation.json holds of one evaluation.

    data: directory with the published files of the data set that the model's image size belongs
    to, or pictures as those of training. images: only the first images of its test part. samples:
    how many to compare, by default SAMPLES of a published set and else none. classified,
    class_samples: if the model knows the classes of the data set, how many of these images to
    classify by bits, by default CLASSIFIED, and how many samples of each class to paint and judge,
    by default EACH where samples of a published set are compared. guidance, best_of: as many samples of
    each class are painted again with each of these weights, and as the best of so many candidates,
    each a row of a table (`ways_of`). completed: how many of the first test images to complete with
    parts hidden. unlike: other pictures, to be told from test images, as many of each. cache:
    directory of trained classifiers. seeds: how often samples are painted and compared, with
    `seed` and those after it. save: also write evaluation.json in the model directory. stage: called at the
    start of each stage, returns a function that is called with its progress. ValueError or
    OSError, before any work, for invalid arguments.
    """
    model, chosen = _load(directory, str(device), precision, backend)
    options: RunOptions = {"precision": precision, "backend": chosen}
    config = model.config
    if save and not os.access(directory, os.W_OK):
        raise ValueError(
            f"{directory} is not writable, so evaluation.json cannot be saved; leave out --save"
        )
    if best_of and model.class_head is None:
        raise ValueError("--best-of needs a class head, which the model does not have")
    defaults = read_defaults(directory, config)
    default = SamplingParams(
        guidance=defaults.guidance, temperature=defaults.temperature, best_of=defaults.best_of
    )
    ways = classes.ways_of(guidance, best_of, default)
    is_published = datasets.set_in(data) is not None
    source = _published(config, data, images) if is_published else _own(config, data, images)
    test = source.test
    knows_classes = classes.labels_of_set(config, source.names) is not None
    if samples is None:
        samples = SAMPLES if is_published else 0
    of_each = class_samples
    if of_each is None:
        of_each = classes.EACH if is_published and samples and knows_classes else 0

    # Arguments are checked before the first measurement, which takes minutes.
    if len(ways) > 1 or of_each:
        _check_ways(ways, config, source.dataset, knows_classes, of_each)
    if config.classes and not knows_classes:
        log.warning("no class is measured: the model's classes are not those of %s", source.dataset)
    if samples and not source.names:
        raise ValueError("--samples needs pictures with classes, which a classifier learns")
    if samples:
        check_counts(samples, len(test))
    others = {path.resolve().name: other_pictures(path, config, len(test)) for path in unlike}

    # So is the cache of the classifier, which may not be writable.
    labelled = classifier = measured = None
    has_judge = bool(samples or of_each or (completed and source.names))
    if knows_classes or has_judge:
        test_labels = source.test_labels()
    if has_judge:
        labelled = LabelledData(source.dataset, *source.training(), test, test_labels, source.names)
        classifier = cached_classifier(labelled, config, cache, model.device, stage)
    progress = stage("scoring test images", len(test), "images")
    bits = bits_per_dim(model, test, progress=progress, **options)
    result: dict[str, Any] = {"dataset": source.dataset, "split": "test", "precision": precision}
    result |= test_figures(bits, test, config)
    if others:
        result["unlike"] = unlike_figures(model, others, test, bits, result, stage, **options)
    if source.refused:
        result["left_out"] = [asdict(refused) for refused in source.refused]
    if knows_classes:
        if classified is None:
            classified = classes.CLASSIFIED.get(source.dataset, 0)
        measured = classes.measure_classes(
            model,
            source.names,
            test,
            test_labels,
            classified=classified,
            of_each=of_each,
            classifier=classifier,
            ways=ways,
            seed=seed,
            stage=stage,
            **options,
        )
        result["classes"] = classes.class_figures(measured)
    if classifier is not None and labelled is not None:
        compared = [
            compare(
                model,
                classifier,
                labelled,
                bits,
                samples,
                seed=(seed + number) % (MAX_SEED + 1),
                defaults=defaults,
                stage=stage,
                **options,
            )
            for number in range(seeds if samples else 0)
        ]
        qualities = [quality(of_seed) for of_seed in compared]
        if samples:
            result["quality"] = qualities[0]
        if seeds > 1 and samples:
            result["seeds"] = seed_figures(qualities)
        if len(ways) > 1 and measured is not None:
            tests = classify(classifier, test)
            result["guidance"] = guidance_figures(measured, test_labels, tests, seed, default)
    if completed:
        of_originals = test_labels[:completed] if has_judge else None
        result["completions"] = inpainting_figures(
            model, test[:completed], classifier, of_originals, seed, stage, **options
        )
    if save:  # without the names of somebody's files, since models are published
        saved = {name: value for name, value in result.items() if name != "left_out"}
        write_evaluation(directory, saved)
    return result


@dataclass(frozen=True)
class Source:
    """The test images of a data set, and what there is besides; read where it is needed."""

    dataset: str
    test: np.ndarray  # [m, N] uint8
    names: tuple[str, ...]  # of its classes; none where it has no labels
    test_labels: Callable[[], np.ndarray]  # [m], from 0
    training: Callable[[], tuple[np.ndarray, np.ndarray]]  # images [t, N], and labels [t]
    refused: tuple[Refused, ...] = ()


def _published(config: ModelConfig, data: Path, count: int | None) -> Source:
    """Return the published set of the model's shape, of its test images the first `count`."""
    dataset = datasets.of_shape(config.height, config.width, config.channels)
    test = datasets.load(dataset, data, "test")

    def training() -> tuple[np.ndarray, np.ndarray]:
        images = datasets.load(dataset, data, "train")
        return images, datasets.labels(dataset, data, "train", images)

    return Source(
        dataset,
        test[:count],
        datasets.CLASSES[dataset],
        lambda: datasets.labels(dataset, data, "test", test)[:count],
        training,
    )


def _own(config: ModelConfig, data: Path, count: int | None) -> Source:
    """Return somebody's own pictures, of the test part the first `count`."""
    pictures = open_for(config, data)
    labels = pictures.labels or Labels((), np.empty(0), np.empty(0))
    # files are sorted by class, and the first images should be of all classes
    order = np.random.default_rng(0).permutation(len(pictures.test))[:count]
    return Source(
        pictures.name or data.resolve().name,
        pictures.test[order],
        labels.names,
        lambda: labels.test[order] - 1,
        lambda: (pictures.train[:], labels.train - 1),
        pictures.refused,
    )


def _load(directory: Path, device: str, precision: str, backend: str) -> tuple[Transformer, str]:
    """Return a model and the name of the backend that runs it; ValueError if this machine cannot
    run the precision."""
    on, backends = resolve_backend(device, backend)
    generator = Generator(load_model(directory, on), 1, precision=precision, backend=backends)
    generator.close()
    return generator.model, generator.backend_name


def _check_ways(
    ways: Sequence[SamplingParams],
    config: ModelConfig,
    dataset: str,
    knows_classes: bool,
    of_each: int,
) -> None:
    """Raise ValueError unless the model can be guided with these weights, knows the classes of the
    data set, and samples of each class are painted."""
    for way in ways:
        check_guidance(way.guidance, True, config)
    what = "--guidance, --best-of and --class-samples are about samples"
    if not knows_classes:
        raise ValueError(f"{what} of the classes of {dataset}, which the model does not know")
    if not of_each:
        raise ValueError(f"{what} of each class; give --class-samples")
