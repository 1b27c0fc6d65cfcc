"""scanline evaluate: test bits/dim of a model, and a report that compares its samples with test images."""

import json
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from scanline.model.device import AUTO
from scanline.model.inputs import MAX_SEED
from scanline.model.precision import DEFAULT
from scanline.server.cli.options import Backend, Data, Device, Fetch, Json, ModelArgument, Precision
from scanline.server.cli.progress import add_stage, progress_bar


def evaluate(
    model: ModelArgument,
    data: Data,
    images: Annotated[int | None, typer.Option(min=1, help="Use only the first images of the test set.")] = None,
    samples: Annotated[
        int,
        typer.Option(
            min=0,
            help="Number of samples to paint for the report; 0 measures bits/dim alone. 2,000 samples take a fifth of"
            " the time that 10,000 test images do; the report's classifier is trained once, in one to three minutes.",
        ),
    ] = 2000,
    report: Annotated[
        Path | None, typer.Option(help="The .html file to write.", show_default="report.html in the model directory")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Directory of trained classifiers.", show_default="the user's cache")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Random seed of the samples.")] = 0,
    fetch: Fetch = False,
    device: Device = "auto",
    precision: Precision = DEFAULT,
    backend: Backend = AUTO,
    save: Annotated[bool, typer.Option("--save", help="Save evaluation.json in the model directory.")] = False,
    as_json: Json = False,
) -> None:
    """Measure bits/dim on the test set of the model's data, and write a report on its samples."""
    from scanline.model import datasets, zoo
    from scanline.model.evaluation.evaluate import evaluate as run
    from scanline.model.evaluation.report import REPORT
    from scanline.model.formats.model_dir import load_config
    from scanline.model.resources import limit_torch_threads

    limit_torch_threads()
    directory = zoo.find(model)
    report = directory / REPORT if report is None else report
    if fetch:
        config = load_config(directory)
        datasets.fetch(datasets.of_shape(config.height, config.width, config.channels), data)
    with progress_bar() as bar:
        found = run(
            directory,
            data,
            report=report,
            images=images,
            samples=samples,
            cache=cache,
            seed=seed,
            precision=precision,
            backend=backend,
            device=device,
            save=save,
            stage=partial(add_stage, bar),
        )
    if as_json:
        print(json.dumps(found))
        return
    error = "" if found["standard_error"] is None else f" +- {found['standard_error']:.4f}"
    print(f"{found['bits_per_dim']:.4f}{error} bits/dim on {found['images']} test images of {found['dataset']}")
    if "quality" in found:
        _print_quality(found["quality"], report)


def _print_quality(quality: dict[str, Any], report: Path) -> None:
    frechet, known = quality["frechet_distance"], quality["recognisable"]
    near, bits = quality["nearest_training_image"], quality["sample_bits_per_dim"]
    print(f"{bits['mean']:.4f} +- {bits['standard_error']:.4f} bits/dim on {quality['samples']} samples")
    print(
        f"Frechet distance in this classifier's features: samples {frechet['samples']:.3f},"
        f" as many test images {frechet['test_images']:.3f}"
    )
    print(f"recognisable: {known['samples']:.1%} of samples, {known['test_images']:.1%} of test images")
    print(
        f"median distance to the nearest training image: samples {near['samples_median']:.1f},"
        f" test images {near['test_images_median']:.1f}; {near['copies']} copies"
    )
    print(f"report: {report}")
