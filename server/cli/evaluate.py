"""scanline evaluate: a model's test bits/dim, with its standard error."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from server.cli.options import Data, Device, Json
from server.cli.progress import progress_bar


def evaluate(
    model: Annotated[str, typer.Argument(help="A shipped model's name or a model directory.")],
    data: Data,
    images: Annotated[int | None, typer.Option(min=1, help="Only the first images of the test set.")] = None,
    device: Device = "auto",
    save: Annotated[bool, typer.Option("--save", help="Keep the result in the model directory.")] = False,
    as_json: Json = False,
) -> None:
    """Bits per dimension on the test set of the data that the model's shape belongs to."""
    from model import datasets, zoo
    from model.checkpoint import load_model, write_atomically
    from model.device import resolve_device
    from model.scoring import score

    directory = zoo.find(model)
    network = load_model(directory, resolve_device(device))
    config = network.config
    dataset = datasets.of_shape(config.height, config.width, config.channels)
    test = datasets.load(dataset, data, "test")[:images]
    with progress_bar() as bar:
        task = bar.add_task("scoring", total=len(test), note="images")
        result = score(network, test, progress=lambda done: bar.update(task, completed=done))
    found = {"dataset": dataset, "split": "test", **asdict(result)}
    if save:
        write_atomically(
            directory / "evaluation.json", lambda path: path.write_text(json.dumps(found, indent=1) + "\n")
        )
    if as_json:
        print(json.dumps(found))
    else:
        error = "" if result.standard_error is None else f" +- {result.standard_error:.4f}"
        print(f"{result.bits_per_dim:.4f}{error} bits/dim on {result.images} test images of {dataset}")
