"""scanline evaluate: a model's test bits/dim, with its standard error."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from model.precision import DEFAULT
from server.cli.options import Data, Device, Json, Precision
from server.cli.progress import progress_bar


def evaluate(
    model: Annotated[str, typer.Argument(help="A shipped model's name or a model directory.")],
    data: Data,
    images: Annotated[int | None, typer.Option(min=1, help="Only the first images of the test set.")] = None,
    device: Device = "auto",
    precision: Precision = DEFAULT,
    save: Annotated[bool, typer.Option("--save", help="Keep the result in the model directory.")] = False,
    as_json: Json = False,
) -> None:
    """Bits per dimension on the test set of the data that the model's shape belongs to."""
    from model import datasets, zoo
    from model.checkpoint import EVALUATION, load_model, read_evaluation, write_atomically
    from model.device import resolve_device
    from model.generator import Generator
    from model.scoring import score

    directory = zoo.find(model)
    network = load_model(directory, resolve_device(device))
    config = network.config
    dataset = datasets.of_shape(config.height, config.width, config.channels)
    test = datasets.load(dataset, data, "test")[:images]
    with progress_bar() as bar:
        task = bar.add_task("scoring", total=len(test), note="images")
        generator = Generator(network, 1, precision=precision)
        result = score(network, test, progress=lambda done: bar.update(task, completed=done), bits_of=generator.bits)
        generator.close()
    found = {"dataset": dataset, "split": "test", "precision": precision, **asdict(result)}
    if save:
        kept = {**read_evaluation(directory), **found} if precision == DEFAULT else read_evaluation(directory)
        if precision != DEFAULT:
            kept.setdefault("precisions", {})[precision] = asdict(result)
        write_atomically(directory / EVALUATION, lambda path: path.write_text(json.dumps(kept, indent=1) + "\n"))
    if as_json:
        print(json.dumps(found))
    else:
        error = "" if result.standard_error is None else f" +- {result.standard_error:.4f}"
        print(f"{result.bits_per_dim:.4f}{error} bits/dim on {result.images} test images of {dataset}")
