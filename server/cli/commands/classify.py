"""scanline classify: the most probable class of pictures."""

import json
from pathlib import Path
from typing import Annotated

import typer

from scanline.model import zoo
from scanline.server.cli.options import CleanOption, Device, Json, Model
from scanline.server.cli.progress import add_stage, progress_bar


def classify(
    pictures: Annotated[list[Path], typer.Argument(help="Pictures of the model's image size.")],
    clean: CleanOption = "auto",
    model: Model = zoo.DEFAULT,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Print the most probable class of each picture, and its probability under a uniform prior. A picture that is
    unlike the model's test images is marked: its probability means little."""
    from scanline.model.device import resolve_backend
    from scanline.model.formats.checkpoint import load_model
    from scanline.model.formats.model_dir import read_typicality
    from scanline.model.likelihood.classification import check_classes, readings
    from scanline.model.likelihood.classification import classify as classify_images
    from scanline.model.sampling.generator import Generator
    from scanline.server.cli.sampling import doubt, read_pictures

    on, backend = resolve_backend(device)
    directory = zoo.find(model)
    network = load_model(directory, on)
    check_classes(network.config)
    read = read_pictures(pictures, directory, clean)
    generator = Generator(network, 1, backend=backend)
    with progress_bar() as bar:
        report = add_stage(bar, "reading", read.images.size * readings(network.config), "bytes")
        given = read.images, read_typicality(directory), read.noisy, read.tolerances
        result = classify_images(generator, *given, report)
    generator.close()
    posterior, bits_per_dim = result.posterior, result.bits / network.config.bytes
    tails = [None] * len(pictures) if result.tail_probabilities is None else result.tail_probabilities.tolist()
    if as_json:
        rows = [
            {
                "picture": str(path),
                "class": result.best[row],
                "probabilities": dict(zip(result.class_names, posterior[row].tolist(), strict=True)),
                "bits_per_dim": dict(zip(result.class_names, bits_per_dim[row].tolist(), strict=True)),
                "noisy": bool(read.noisy[row]),
                "tail_probability": tails[row],
                "typical": None if result.typical is None else bool(result.typical[row]),
            }
            for row, path in enumerate(pictures)
        ]
        print(json.dumps({"data": rows}))
        return
    for path, name, probability, tail in zip(pictures, result.best, posterior.max(axis=1), tails, strict=True):
        print(f"{name}  {probability:.4f}  {path}{doubt(tail)}")
