"""scanline evaluate: a model's test bits/dim, and what its samples are worth beside test images."""

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from scanline.model.precision import DEFAULT
from scanline.server.cli.options import Data, Device, Json, Precision
from scanline.server.cli.progress import progress_bar


def evaluate(
    model: Annotated[str, typer.Argument(help="A shipped model's name or a model directory.")],
    data: Data,
    images: Annotated[int | None, typer.Option(min=1, help="Only the first images of the test set.")] = None,
    samples: Annotated[
        int,
        typer.Option(
            min=0,
            help="Images to paint for the report, 0 for bits/dim alone; 2,000 cost a fifth of the time that the bits of"
            " 10,000 test images do, and a classifier one to three minutes, once.",
        ),
    ] = 2000,
    report: Annotated[
        Path | None, typer.Option(help="A .html to write.", show_default="in the model directory")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Where the classifier is kept.", show_default="the user's cache")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Of the samples.")] = 0,
    fetch: Annotated[bool, typer.Option("--fetch", help="Fetch missing data files from their mirrors.")] = False,
    device: Device = "auto",
    precision: Precision = DEFAULT,
    save: Annotated[bool, typer.Option("--save", help="Keep the result in the model directory.")] = False,
    as_json: Json = False,
) -> None:
    """Bits per dimension on the test set of the data that the model's shape belongs to, and a report of samples."""
    from scanline.model import datasets, zoo
    from scanline.model.device import resolve_device
    from scanline.model.evaluation.likelihood import bits_of_images, mean_of
    from scanline.model.evaluation.metrics import figures
    from scanline.model.evaluation.report import REPORT, check_report, save_report
    from scanline.model.evaluation.samples import check_counts, gather
    from scanline.model.formats.checkpoint import load_model
    from scanline.model.sampling.generator import Generator
    from scanline.server.cli.classifier import classifier_of

    directory = zoo.find(model)
    network = load_model(directory, resolve_device(device))
    config = network.config
    dataset = datasets.of_shape(config.height, config.width, config.channels)
    if fetch:
        datasets.fetch(dataset, data)
    test = datasets.load(dataset, data, "test")
    if save and not os.access(directory, os.W_OK):
        raise ValueError(f"{directory} cannot be written, so nothing can be kept there; leave out --save")
    path = directory / REPORT if report is None else report
    if samples:
        check_counts(samples, len(test[:images]))
        check_report(path)
        training = datasets.load(dataset, data, "train")
        training_labels = datasets.labels(dataset, data, "train", training)
        test_labels = datasets.labels(dataset, data, "test", test)[:images]
    test = test[:images]
    with progress_bar() as bar:

        def stage(what: str, total: int, unit: str) -> Callable[[int], None]:
            task = bar.add_task(what, total=total, note=unit)
            return lambda done: bar.update(task, completed=done)

        if samples:
            classifier = classifier_of(dataset, config, training, training_labels, cache, network.device, stage)
        generator = Generator(network, 1, precision=precision)
        bits = bits_of_images(network, test, progress=stage("scoring", len(test), "images"), bits_of=generator.bits)
        generator.close()
        result = mean_of(bits)
        found = {"dataset": dataset, "split": "test", "precision": precision, **asdict(result)}
        if samples:
            evidence = gather(
                network, classifier, dataset, training, test, test_labels, bits, samples, seed, precision, stage
            )
            found["quality"] = figures(evidence)
            save_report(directory.resolve().name, config, found, evidence, path)
    if save:
        _keep(directory, found)
    if as_json:
        print(json.dumps(found))
        return
    error = "" if result.standard_error is None else f" +- {result.standard_error:.4f}"
    print(f"{result.bits_per_dim:.4f}{error} bits/dim on {result.images} test images of {dataset}")
    if samples:
        _tell(found["quality"], path)


def _keep(directory: Path, found: dict[str, Any]) -> None:
    """In evaluation.json: the exact figures at its top, those of another precision under its name."""
    from scanline.model.atomic import write_atomically
    from scanline.model.formats.model_dir import EVALUATION, read_evaluation

    kept = read_evaluation(directory)
    if found["precision"] == DEFAULT:
        kept |= found
    else:
        measured = {key: found[key] for key in ("bits_per_dim", "standard_error", "images", "quality") if key in found}
        kept.setdefault("precisions", {})[found["precision"]] = measured
    write_atomically(directory / EVALUATION, lambda path: path.write_text(json.dumps(kept, indent=1) + "\n"))


def _tell(quality: dict[str, Any], path: Path) -> None:
    frechet, known = quality["frechet_distance"], quality["recognisable"]
    near = quality["nearest_training_image"]
    own = quality["sample_bits_per_dim"]
    print(f"{own['mean']:.4f} +- {own['standard_error']:.4f} bits/dim on {quality['samples']} samples")
    print(
        f"Frechet distance in this classifier's features: samples {frechet['samples']:.3f},"
        f" as many test images {frechet['test_images']:.3f}"
    )
    print(f"recognisable: {known['samples']:.1%} of samples, {known['test_images']:.1%} of test images")
    print(
        f"median distance to the nearest training image: samples {near['samples_median']:.1f},"
        f" test images {near['test_images_median']:.1f}; {near['copies']} copies"
    )
    print(f"{path}: the report")
