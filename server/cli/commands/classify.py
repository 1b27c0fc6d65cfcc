"""scanline classify: the most probable class of pictures."""

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
    """Print the most probable class of each picture, and its probability under a uniform prior."""
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
    result = classify_images(generator, images)
    generator.close()
    posterior, bits_per_dim = result.posterior, result.bits / network.config.bytes
    if as_json:
        rows = [
            {
                "picture": str(path),
                "class": result.best[row],
                "probabilities": dict(zip(result.class_names, posterior[row].tolist(), strict=True)),
                "bits_per_dim": dict(zip(result.class_names, bits_per_dim[row].tolist(), strict=True)),
            }
            for row, path in enumerate(pictures)
        ]
        print(json.dumps({"data": rows}))
        return
    for path, name, probability in zip(pictures, result.best, posterior.max(axis=1), strict=True):
        print(f"{name}  {probability:.4f}  {path}")
