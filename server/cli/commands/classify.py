"""scanline classify: which class of a model pictures show."""

import json
from pathlib import Path
from typing import Annotated

import typer

from scanline.model import zoo
from scanline.server.cli.options import Device, Json, Model


def classify(
    pictures: Annotated[list[Path], typer.Argument(help="Pictures of the model's image size.")],
    model: Model = zoo.DEFAULT,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Print the most probable class of each picture, and its probability with every class equally likely before."""
    from scanline.model.classification import check_classes
    from scanline.model.classification import classify as classify_images
    from scanline.model.device import resolve_backend
    from scanline.model.formats.checkpoint import load_model
    from scanline.model.sampling.generator import Generator
    from scanline.server.cli.sampling import read_pictures

    on, backend = resolve_backend(device)
    network = load_model(zoo.find(model), on)
    check_classes(network.config)
    images = read_pictures(pictures, network.config)
    generator = Generator(network, 1, backend=backend)
    found = classify_images(generator, images)
    generator.close()
    posterior, bits_per_dim = found.posterior, found.bits / network.config.bytes
    if as_json:
        rows = [
            {
                "picture": str(path),
                "class": found.best[row],
                "probabilities": dict(zip(found.class_names, posterior[row].tolist(), strict=True)),
                "bits_per_dim": dict(zip(found.class_names, bits_per_dim[row].tolist(), strict=True)),
            }
            for row, path in enumerate(pictures)
        ]
        print(json.dumps({"data": rows}))
        return
    for path, name, probability in zip(pictures, found.best, posterior.max(axis=1), strict=True):
        print(f"{name}  {probability:.4f}  {path}")
