"""Measurements of a model with classes: test bits/dim with the true class, classification of
test images by the bits under every class, and the classes that the report's classifier sees in
samples of each class, guided or not.

Classes are in the order of the data set, and not in the model's.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any, Unpack

import numpy as np
import torch

from scanline.model.base.config import ModelConfig
from scanline.model.base.sampling_options import SamplingParams
from scanline.model.evaluation.classifier import Classifier, Predictions, classify, joined
from scanline.model.evaluation.comparison import Stage
from scanline.model.evaluation.likelihood import bits_per_dim
from scanline.model.evaluation.metrics import bits_figures, way_words
from scanline.model.evaluation.other_hands import changed
from scanline.model.images.cleaning import Cleaning, read
from scanline.model.likelihood import classification
from scanline.model.likelihood.typicality import TYPICAL
from scanline.model.network.class_reading import class_answers
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.base.messages import GenerateRequest
from scanline.model.tasks.offline import RunOptions, after, paint_request

READ_AT_ONCE = 256  # readings, of an image under a class: each holds a state in memory
CLASSIFIED = {"mnist": 10_000, "cifar10": 1_000}  # test images; each is read under each class
EACH = 1_000  # samples of each class
OTHERS = 2_000  # test images, each changed in several ways
SURE = 0.99  # the probability above which an answer counts as sure
BINS = 10  # of the probability of the most likely class


@dataclass(frozen=True)
class ClassSamples:
    """Samples of each of K classes, as many of each."""

    classes: int  # K
    predictions: Predictions  # of all, class after class
    seed: int
    way: SamplingParams  # how they were painted, but for their classes

    @property
    def of_each(self) -> int:
        """The number of samples of each class."""
        return len(self.predictions.classes) // self.classes

    @property
    def asked(self) -> np.ndarray:
        """The class asked for of each, [K * each] int64."""
        return np.repeat(np.arange(self.classes), self.of_each)

    @property
    def confusion(self) -> np.ndarray:
        """How many samples of the class asked for (row) the classifier gives each class, [K, K]
        int64."""
        return _confusion(self.asked, self.predictions.classes, self.classes)


@dataclass(frozen=True)
class Answers:
    """The probabilities that a way of reading gives the classes of n test images."""

    true: np.ndarray  # [n] int64, the class of each
    posterior: np.ndarray  # [n, K] float64
    temperature: float | None = None  # of the posterior, where it was fitted to every second image
    named: np.ndarray | None = None  # [n] bool, where the class head leaves some images without one

    @property
    def confusion(self) -> np.ndarray:
        """How many test images of a class (row) are given each class, [K, K] int64."""
        return _confusion(self.true, self.posterior.argmax(axis=1), self.posterior.shape[1])

    def figures(self) -> dict[str, Any]:
        """Return what evaluation.json holds of them."""
        count = len(self.true)
        right = int(self.confusion.trace())
        # Sure answers are counted of the images that no temperature was fitted to.
        figures: dict[str, Any] = {}
        rest = slice(None)
        if self.temperature is not None:
            figures["temperature"] = self.temperature
            rest = slice(1, None, 2)
        posterior = self.posterior[rest]
        is_right = posterior.argmax(axis=1) == self.true[rest]
        sure = posterior.max(axis=1) > SURE
        if self.named is not None:
            figures["named"] = float(self.named.mean())
            sure &= self.named
        sure_and_right = is_right[sure]
        return figures | {
            "accuracy": right / count,
            "standard_error": sqrt(right * (count - right) / count) / count,
            "images": count,
            "sure": {
                "above": SURE,
                "images": int(sure.sum()),
                "right": float(sure_and_right.mean()) if sure.any() else None,
            },
            "reliability": reliability(posterior.max(axis=1), is_right),
            "confusion": self.confusion.tolist(),
        }


def reliability(confidence: np.ndarray, is_right: np.ndarray) -> dict[str, Any]:
    """Return how often answers are right that are so sure, [n] each, in BINS bins of equal width
    that have any, and the mean distance of both (the expected calibration error)."""
    numbers = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    bins = []
    for number in np.unique(numbers).tolist():
        inside = numbers == number
        bins.append(
            {
                "from": number / BINS,
                "answers": int(inside.sum()),
                "confidence": float(confidence[inside].mean()),
                "right": float(is_right[inside].mean()),
            }
        )
    apart = sum(row["answers"] * abs(row["confidence"] - row["right"]) for row in bins)
    return {"calibration_error": apart / len(confidence), "bins": bins}


@dataclass(frozen=True)
class ClassMeasurements:
    """The measurements; None for those that were not requested."""

    names: tuple[str, ...]  # of K classes
    labels: np.ndarray  # [m], the class of each test image, from 0
    true_class: np.ndarray  # [m] float64, bits/dim of the test images with their class
    by_bits: Answers | None  # of the first test images
    samples: ClassSamples | None
    # with the same seed and as many as `samples`, painted in the other ways
    others: tuple[ClassSamples, ...] = ()
    # [classified] float64, bits/dim of the first test images, their class drawn
    any_class: np.ndarray | None = None
    readings: int = 0  # of the classified images under a class, mirrored ones included
    by_head: Answers | None = None  # of all test images, where the model has a class head
    # of the first test images as others might have drawn them, by what was changed
    by_head_of_others: dict[str, Answers] = field(default_factory=dict)


def labels_of_set(config: ModelConfig, names: Sequence[str]) -> np.ndarray | None:
    """Return the model's label [K] int64 of each class of a data set; None where it knows other
    classes, or none."""
    if not names or sorted(config.class_names) != sorted(names):
        return None
    return np.array([config.class_names.index(name) + 1 for name in names], np.int64)


def measure_classes(
    model: Transformer,
    names: tuple[str, ...],
    test: np.ndarray,
    classes: np.ndarray,
    *,
    classified: int,
    of_each: int = 0,
    classifier: Classifier | None = None,
    ways: Sequence[SamplingParams] = (SamplingParams(),),
    seed: int = 0,
    stage: Stage = lambda what, total, unit: lambda done: None,
    **options: Unpack[RunOptions],
) -> ClassMeasurements:
    """Measure a model that knows the classes of a data set, on test images [m, N] uint8 of
    `classes` [m].

    classified: how many of the first test images to classify. of_each: how many samples of each class
    the `classifier` sees, painted in each of `ways`, the first of which is plain.
    """
    labels = labels_of_set(model.config, names)
    assert labels is not None
    first = min(classified, len(test))
    progress = stage("classifying with the model", first, "images")
    with closing(Generator(model, 1, **options)) as generator:
        bits, compared = _under_each_class(generator, test[:first], labels, progress)
    # The bits with the true class are among those under every class, so only the rest of the test
    # images is scored.
    true = bits[np.arange(first), classes[:first]] / model.config.bytes
    if first < len(test):
        rest = test[first:]
        progress = stage("scoring test images with their class", len(rest), "images")
        of_rest = labels[classes[first:]]
        bits_of_rest = bits_per_dim(model, rest, progress=progress, labels=of_rest, **options)
        true = np.concatenate((true, bits_of_rest))
    samples: list[ClassSamples] = []
    if of_each and classifier is not None:
        for way in ways:
            requests = _requests(way, labels.tolist(), of_each, seed)
            predictions = _sample(
                model, classifier, requests, way_words(vars(way)), stage, **options
            )
            samples.append(ClassSamples(len(labels), predictions, seed, way))
    by_head = answers_by_head(model, test, classes, stage, labels)
    by_head_of_others = answers_of_others(model, test, classes, stage, labels)
    by_bits = None
    if first:
        temperature = classification.fitted_temperature(compared[::2], classes[:first:2])
        posterior = classification.posterior(compared, temperature)
        by_bits = Answers(classes[:first].astype(np.int64), posterior, temperature)
    any_class = classification.mixture_bits(bits) / model.config.bytes if first else None
    unguided = samples[0] if samples else None
    readings = first * classification.readings(model.config)
    return ClassMeasurements(
        names,
        classes,
        true,
        by_bits,
        unguided,
        tuple(samples[1:]),
        any_class,
        readings,
        by_head,
        by_head_of_others,
    )


def class_figures(measured: ClassMeasurements) -> dict[str, Any]:
    """Return the measurements as evaluation.json holds them under "classes"."""
    result: dict[str, Any] = {
        "names": list(measured.names),
        "true_class": bits_figures(measured.true_class),
        "by_class": [_of_class(measured, number) for number in range(len(measured.names))],
    }
    if measured.any_class is not None:
        result["any_class"] = bits_figures(measured.any_class)
    if measured.by_bits is not None:
        read = {"readings": measured.readings, "readings_at_once": READ_AT_ONCE}
        result["classification"] = measured.by_bits.figures() | read
    if measured.by_head is not None:
        result["by_head"] = measured.by_head.figures()
    of_others = {name: answers.figures() for name, answers in measured.by_head_of_others.items()}
    if of_others:
        result["by_head_of_others"] = of_others
    if measured.samples is not None:
        counts = measured.samples.confusion
        result["samples"] = {
            "each": measured.samples.of_each,
            "seed": measured.samples.seed,
            "as_asked": float(counts.trace() / counts.sum()),
            "as_asked_of_each": (counts.diagonal() / counts.sum(axis=1)).tolist(),
            "confusion": counts.tolist(),
        }
    return result


def _of_class(measured: ClassMeasurements, number: int) -> dict[str, Any]:
    """Return what is known of one class: the bits of its test images, how many of them are read
    rightly, and how many samples are as asked for."""
    bits = measured.true_class[measured.labels == number]
    row: dict[str, Any] = {"name": measured.names[number], "images": len(bits)}
    if len(bits):
        row["bits_per_dim"] = float(bits.mean())
    confusions = {
        "by_head": measured.by_head,
        "by_bits": measured.by_bits,
        "samples_as_asked": measured.samples,
    }
    for key, seen in confusions.items():
        if seen is not None:
            counts = seen.confusion[number]
            row[key] = float(counts[number] / max(1, counts.sum()))
    return row


def answers_by_head(
    model: Transformer,
    images: np.ndarray,
    classes: np.ndarray,
    stage: Stage,
    labels: np.ndarray | None = None,
) -> Answers | None:
    """Return what the class head says of images [n, N] uint8 of `classes` [n], None where the
    model has none. labels: [K], of each class, where that is not the model's order."""
    if model.class_head is None:
        return None
    progress = stage("classifying by the class head", len(images), "images")
    answers = []
    for start in range(0, len(images), READ_AT_ONCE):
        part = torch.tensor(images[start : start + READ_AT_ONCE], device=model.device)
        answers.append(class_answers(model, part).double().cpu())
        progress(start + len(part))
    answer = torch.cat(answers)
    posterior = answer[:, :-1].softmax(dim=1).numpy()
    if labels is not None:
        posterior = posterior[:, labels - 1]
    named = None
    if model.class_head.quantiles is not None:
        named = answer[:, -1].numpy() >= TYPICAL
    return Answers(classes.astype(np.int64), posterior, named=named)


def answers_of_others(
    model: Transformer, images: np.ndarray, classes: np.ndarray, stage: Stage, labels: np.ndarray
) -> dict[str, Answers]:
    """Return the same of the first images as other people might have drawn them, cleaned before
    they are read, by what was changed; {} where the model has no head or cleans nothing."""
    config = model.config
    cleaning = Cleaning.measure(images, config)
    if cleaning is None or config.channels > 1:
        return {}
    drawings = cleaning.drawings(images[:OTHERS], config)
    answers = {}
    for name, others in changed(drawings).items():
        given = cleaning.on_its_ground(others)
        cleaned = read(given, config, cleaning, "auto").images
        by_head = answers_by_head(model, cleaned, classes[:OTHERS], stage, labels)
        if by_head is not None:
            answers[name] = by_head
    return answers


def _under_each_class(
    generator: Generator, images: np.ndarray, labels: np.ndarray, progress: Callable[[int], None]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the bits of images [n, N] uint8 with each of `labels` [K], and those that compare
    classes, both [n, K]."""
    config = generator.config
    count = len(config.classes)
    at_once = max(1, READ_AT_ONCE // classification.readings(config))
    bits = np.empty((len(images), len(labels)))
    compared = np.empty_like(bits)
    for start in range(0, len(images), at_once):
        part = slice(start, start + at_once)
        views = classification.views(config, images[part]).reshape(-1, config.bytes)
        of_all = list(range(1, count + 1)) * len(views)
        totals = generator.score(views.repeat(count, axis=0), of_all).sum(axis=1)
        under, means = classification.of_readings(config, totals)
        bits[part] = under[:, labels - 1]
        compared[part] = means[:, labels - 1]
        progress(min(start + at_once, len(images)))
    return bits, compared


def _sample(
    model: Transformer,
    classifier: Classifier,
    requests: Sequence[GenerateRequest],
    way: str,
    stage: Stage,
    **options: Unpack[RunOptions],
) -> Predictions:
    """Paint and classify the samples of a request for each class; no image is kept."""
    size = requests[0].n * model.config.bytes
    progress = stage(f"painting samples of each class, {way}", len(requests) * size, "bytes")
    predictions: list[Predictions] = []
    for row, request in enumerate(requests):
        painted = paint_request(model, request, progress=after(row * size, progress), **options)
        predictions.append(classify(classifier, painted.images))
    return joined(predictions)


def ways_of(
    guidance: Sequence[float], best_of: Sequence[int], default: SamplingParams
) -> list[SamplingParams]:
    """Return how samples of each class are painted: plainly, with each guidance, and likewise, or
    plainly where there is none, as the best of so many candidates; where there are any of these,
    also by default."""
    weights = [*dict.fromkeys((1.0, *guidance))]
    ways = [SamplingParams(guidance=weight) for weight in weights]
    for way in ways[1:] or ways[:]:
        ways += [replace(way, best_of=count) for count in best_of]
    if len(ways) > 1:
        ways.append(default)
    return [*dict.fromkeys(ways)]


def _requests(
    way: SamplingParams, labels: Iterable[int], of_each: int, seed: int
) -> list[GenerateRequest]:
    return [
        GenerateRequest(0, of_each, seed, **vars(replace(way, label=label))) for label in labels
    ]


def _confusion(true: np.ndarray, predicted: np.ndarray, count: int) -> np.ndarray:
    """Return the confusion matrix of n images, true classes by predicted ones, [count, count]
    int64."""
    counts = np.zeros((count, count), np.int64)
    np.add.at(counts, (true, predicted), 1)
    return counts
