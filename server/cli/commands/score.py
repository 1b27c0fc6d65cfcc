"""scanline score: likelihoods of given pictures."""

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from scanline.model import zoo
from scanline.server.cli.options import Device, Json, Model


def score(
    pictures: Annotated[list[Path], typer.Argument(help="Pictures of the model's image size.")],
    model: Model = zoo.DEFAULT,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Print the bits per dimension of each picture."""
    from scanline.model.device import resolve_backend
    from scanline.model.formats.checkpoint import load_model
    from scanline.model.pictures import open_picture, pixels
    from scanline.model.sampling.generator import Generator

    on, backends = resolve_backend(device)
    network = load_model(zoo.find(model), on)
    config = network.config
    images = np.stack([pixels(open_picture(path.read_bytes(), config, str(path)), config) for path in pictures])
    generator = Generator(network, 1, backend=backends)
    each = generator.score(images).mean(axis=1).tolist()
    generator.close()
    if as_json:
        rows = [{"picture": str(path), "bits_per_dim": value} for path, value in zip(pictures, each, strict=True)]
        print(json.dumps({"data": rows}))
    else:
        for path, value in zip(pictures, each, strict=True):
            print(f"{value:.4f}  {path}")
