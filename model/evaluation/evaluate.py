"""The evaluation of a model directory: bits/dim of the test set, measurements of its classes and,
where samples are requested, their comparison with test images, with a table of guidance."""

import logging
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from scanline.model import datasets
from scanline.model.base.config import ModelConfig
from scanline.model.base.device import AUTO, resolve_backend
from scanline.model.base.precision import DEFAULT
from scanline.model.base.sampling_options import Defaults, SamplingParams, check_guidance
from scanline.model.datasets.source import open_for
from scanline.model.evaluation import classes
from scanline.model.evaluation.classifier_cache import cached_classifier
from scanline.model.evaluation.comparison import LabelledData, Stage, check_counts, compare
from scanline.model.evaluation.guidance import guidance_figures
from scanline.model.evaluation.likelihood import bits_per_dim
from scanline.model.evaluation.metrics import bits_figures, quality, test_figures
from scanline.model.formats.checkpoint import load_model
from scanline.model.formats.model_dir import read_defaults, write_evaluation
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.base.generator import Generator
from scanline.model.tasks.offline import RunOptions

log = logging.getLogger("scanline.evaluation")


def evaluate(
    directory: Path,
    data: Path,
    *,
    images: int | None = None,
    samples: int = 2000,
    classified: int | None = None,
    class_samples: int | None = None,
    guidance: Sequence[float] = (),
    best_of: Sequence[int] = (),
    cache: Path | None = None,
    seed: int = 0,
    precision: str = DEFAULT,
    backend: str = AUTO,
    device: torch.device | str = "auto",
    save: bool = False,
    stage: Stage = lambda what, total, unit: lambda done: None,
) -> dict[str, Any]:
    """Return what evaluation.json holds of one evaluation; samples are compared unless `samples` is
    0.

    data: directory with the published files of the data set that the model's image size belongs
    to, or pictures as those of training, of which the test part is scored alone. images: only the
    first images of its test set. classified, class_samples: if the model knows the classes of the
    data set, how many of these images to classify with it, by default CLASSIFIED, and how many
    samples of each class to paint and judge, by default EACH. guidance, best_of: as many samples of
    each class are painted again with each of these weights, and as the best of so many candidates,
    each a row of a table (`ways_of`). cache: directory of trained
    classifiers. save: also write evaluation.json in the model directory. stage: called at the
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
    ways = classes.ways_of(guidance, best_of)
    if datasets.set_in(data) is None:
        defaults = read_defaults(directory, config)
        result = _of_pictures(
            model, data, images, class_samples or 0, ways, defaults, seed, stage, options
        )
        if save:  # without the names of somebody's files, since models are published
            saved = {name: value for name, value in result.items() if name != "left_out"}
            write_evaluation(directory, saved)
        return result
    dataset = datasets.of_shape(config.height, config.width, config.channels)
    whole_test = datasets.load(dataset, data, "test")
    test = whole_test[:images]
    knows_classes = classes.labels_of_set(config, dataset) is not None

    # Arguments are checked before the first measurement, which takes minutes.
    if len(ways) > 1:
        paints_classes = samples > 0 and class_samples != 0
        _check_ways(ways, config, dataset, knows_classes, paints_classes)
    if config.classes and not knows_classes:
        log.warning("no class is measured: the model's classes are not those of %s", dataset)
    if samples:
        check_counts(samples, len(test))

    # So is the cache of the classifier, which may not be writable.
    labelled = classifier = measured = None
    if knows_classes or samples:
        test_labels = datasets.labels(dataset, data, "test", whole_test)[:images]
    if samples:
        training = datasets.load(dataset, data, "train")
        training_labels = datasets.labels(dataset, data, "train", training)
        labelled = LabelledData(dataset, training, training_labels, test, test_labels)
        classifier = cached_classifier(labelled, config, cache, model.device, stage)
    progress = stage("scoring test images", len(test), "images")
    bits = bits_per_dim(model, test, progress=progress, **options)
    result = {"dataset": dataset, "split": "test", "precision": precision}
    result |= test_figures(bits, test, config)
    if knows_classes:
        measured = classes.measure_classes(
            model,
            dataset,
            test,
            test_labels,
            classified=classes.CLASSIFIED[dataset] if classified is None else classified,
            of_each=classes.EACH if class_samples is None else class_samples,
            classifier=classifier,
            ways=ways,
            seed=seed,
            stage=stage,
            **options,
        )
        result["classes"] = classes.class_figures(measured)
    if labelled is not None and classifier is not None:
        compared = compare(
            model,
            classifier,
            labelled,
            bits,
            samples,
            seed=seed,
            defaults=read_defaults(directory, config),
            stage=stage,
            **options,
        )
        result["quality"] = quality(compared)
        if len(ways) > 1 and measured is not None:
            result["guidance"] = guidance_figures(measured, compared)
    if save:
        write_evaluation(directory, result)
    return result


def _of_pictures(
    model: Transformer,
    data: Path,
    count: int | None,
    of_each: int,
    ways: list[SamplingParams],
    defaults: Defaults,
    seed: int,
    stage: Stage,
    options: RunOptions,
) -> dict[str, Any]:
    """Return the evaluation on the test part of somebody's own pictures, whose samples no
    classifier judges: there is one for published sets alone. The class head judges `of_each` samples
    of each class, painted in these ways and by the model's defaults."""
    config = model.config
    pictures = open_for(config, data)
    asks_for_ways = len(ways) > 1
    if (of_each or asks_for_ways) and not (of_each and model.class_head and pictures.labels):
        raise ValueError(
            "--guidance, --best-of and --class-samples go together, for a model with a class head"
        )
    for way in ways:
        check_guidance(way.guidance, True, config)
    test = pictures.test[:count]
    progress = stage("scoring test images", len(test), "images")
    bits = bits_per_dim(model, test, progress=progress, **options)
    name = pictures.name or data.resolve().name
    result: dict[str, Any] = {"dataset": name, "split": "test", "precision": options["precision"]}
    result |= test_figures(bits, test, config)
    if pictures.refused:
        result["left_out"] = [asdict(refused) for refused in pictures.refused]
    if pictures.labels is not None:
        progress = stage("scoring test images with their class", len(test), "images")
        labels = pictures.labels.test[: len(test)]
        with_class = bits_per_dim(model, test, progress=progress, labels=labels, **options)
        result["classes"] = {"true_class": bits_figures(with_class)}
        by_head = classes.answers_by_head(model, test, labels - 1, stage)
        if by_head is not None:
            result["classes"]["by_head"] = by_head.figures()
    if of_each:
        default = SamplingParams(guidance=defaults.guidance, temperature=defaults.temperature)
        ways = list(dict.fromkeys([*ways, default]))  # each once
        rows = classes.judged_samples(model, pictures, of_each, ways, seed, stage)
        for row, way in zip(rows, ways, strict=True):
            row["default"] = way == default
        result["classes"]["guided"] = rows
    return result


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
    samples: bool,
) -> None:
    """Raise ValueError unless the model can be guided with these weights, knows the classes of the
    data set, and samples of each class are painted."""
    for way in ways:
        check_guidance(way.guidance, True, config)
    what = "--guidance and --best-of compare samples"
    if not knows_classes:
        raise ValueError(f"{what} of the classes of {dataset}, which the model does not know")
    if not samples:
        raise ValueError(f"{what} of each class; leave out --samples 0 and --class-samples 0")
