"""scanline evaluate: test bits/dim of a model, and how its samples compare with test images."""

import json
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from scanline.model.base.device import AUTO
from scanline.model.base.inputs import MAX_SEED
from scanline.model.base.precision import DEFAULT
from scanline.model.base.sampling_options import MAX_BEST_OF
from scanline.server.cli.base.options import (
    Backend,
    Data,
    Device,
    Fetch,
    Json,
    ModelArgument,
    Precision,
)
from scanline.server.cli.base.progress import add_stage, progress_bar


def evaluate(
    model: ModelArgument,
    data: Data,
    images: Annotated[
        int | None, typer.Option(min=1, help="Use only the first images of the test set.")
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Samples to compare; 0: none. The classifier that judges them is trained once, in minutes.",
            show_default="2,000, of own pictures none",
        ),
    ] = None,
    classified: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Test images to classify with a model that knows their classes, each read once for each class, or"
            " twice by a model of mirrored pictures.",
            show_default="10,000 digits, 1,000 of CIFAR-10",
        ),
    ] = None,
    class_samples: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Samples of each class of such a model, to be judged by the same classifier.",
            show_default="1,000, of own pictures none",
        ),
    ] = None,
    guidance: Annotated[
        list[float] | None,
        typer.Option(
            help="Guidance to compare such samples with and without. Repeatable.",
            show_default=False,
        ),
    ] = None,
    best_of: Annotated[
        list[int] | None,
        typer.Option(
            min=1,
            max=MAX_BEST_OF,
            help="Candidates of such a sample, of which the class head chooses one, with each guidance. Repeatable.",
            show_default=False,
        ),
    ] = None,
    completed: Annotated[
        int,
        typer.Option(
            min=0,
            help="Test images to complete without a band, a half and the centre, by 1, 16 and 64 particles.",
        ),
    ] = 0,
    unlike: Annotated[
        list[Path] | None,
        typer.Option(
            help="Other pictures, as --data, to tell from the test images by their bits. Repeatable.",
            show_default=False,
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(help="Directory of trained classifiers.", show_default="the user's cache"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Random seed of the samples.")] = 0,
    seeds: Annotated[
        int,
        typer.Option(min=1, help="Compare samples of so many seeds, that one and those after it."),
    ] = 1,
    fetch: Fetch = False,
    device: Device = "auto",
    precision: Precision = DEFAULT,
    backend: Backend = AUTO,
    save: Annotated[
        bool, typer.Option("--save", help="Save evaluation.json in the model directory.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Measure bits/dim on the test set of the model's data, and
    compare its samples with test images.
    """
    from scanline.model import datasets, zoo
    from scanline.model.base.named_files import check_output
    from scanline.model.base.resources import limit_torch_threads
    from scanline.model.datasets.sources import Refused
    from scanline.model.evaluation.evaluate import evaluate as run
    from scanline.model.formats.model_dir import EVALUATION, load_config, read_evaluation
    from scanline.model.training.run.card import renew_card
    from scanline.server.cli.base.sampling import print_left_out

    limit_torch_threads()
    directory = zoo.find(model)
    if save:
        check_output(directory / EVALUATION)
    if fetch:  # the folder may be empty yet: which set it is for, the model's shape says
        config = load_config(directory)
        datasets.fetch(datasets.of_shape(config.height, config.width, config.channels), data)
    with progress_bar() as bar:
        evaluation = run(
            directory,
            data,
            images=images,
            samples=samples,
            classified=classified,
            class_samples=class_samples,
            guidance=guidance or (),
            best_of=best_of or (),
            completed=completed,
            unlike=unlike or (),
            cache=cache,
            seed=seed,
            seeds=seeds,
            precision=precision,
            backend=backend,
            device=device,
            save=save,
            stage=partial(add_stage, bar),
        )
    if save and datasets.set_in(data) is None:
        renew_card(directory, read_evaluation(directory))
    print_left_out([Refused(**picture) for picture in evaluation.get("left_out", ())])
    if as_json:
        print(json.dumps(evaluation))
    else:
        _print(evaluation)


def _print(evaluation: dict[str, Any]) -> None:
    from scanline.model.evaluation.metrics import tested_rows

    error = (
        "" if evaluation["standard_error"] is None else f" +- {evaluation['standard_error']:.4f}"
    )
    bits = f"{evaluation['bits_per_dim']:.4f}{error} bits/dim"
    print(f"{bits} on {evaluation['images']} test images of {evaluation['dataset']}")
    for name, value in tested_rows(evaluation).items():
        print(f"{name}: {value}")
    for row in evaluation.get("classes", {}).get("by_class", ()):
        figures = [f"{name} {value:.4g}" for name, value in row.items() if name != "name"]
        print(f"class {row['name']}: {', '.join(figures)}")
    if quality := evaluation.get("quality"):
        _print_quality(quality)


def _print_quality(quality: dict[str, Any]) -> None:
    frechet = quality["frechet_distance"]
    known = quality["recognisable"]
    near = quality["nearest_training_image"]
    bits = quality["sample_bits_per_dim"]
    print(
        f"{bits['mean']:.4f} +- {bits['standard_error']:.4f} bits/dim on {quality['samples']} samples"
    )
    print(
        f"Frechet distance in this classifier's features:"
        f" samples {frechet['samples']:.3f} +- {frechet['standard_error']:.3f},"
        f" as many test images {frechet['test_images']:.3f}"
    )
    for what, shares in (("samples", "of_samples"), ("test images", "of_test_images")):
        of_kind = frechet[shares]
        print(f"precision {of_kind['precision']:.1%}, recall {of_kind['recall']:.1%} of {what}")
    print(
        f"recognisable: {known['samples']:.1%} of samples, {known['test_images']:.1%} of test images"
    )
    print(
        f"median distance to the nearest training image: samples {near['samples_median']:.1f},"
        f" test images {near['test_images_median']:.1f}; {near['copies']} copies,"
        f" {near['samples_close']:.1%} nearer than all but {near['test_images_close']:.0%} of test images"
    )
    if default := quality["default"]:
        print(
            f"by the model's defaults: {default['recognisable']:.1%} recognisable,"
            f" Frechet distance {default['frechet_distance']:.3f}"
        )
