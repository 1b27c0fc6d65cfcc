"""scanline classify: the most probable class of pictures."""

import json
from pathlib import Path
from typing import Annotated

import typer

from scanline.model import zoo
from scanline.server.cli.options import CleanOption, Device, Json, Model
from scanline.server.cli.progress import model_bar


def classify(
    pictures: Annotated[list[Path], typer.Argument(help="Pictures of the model's image size, or folders of them.")],
    clean: CleanOption = "auto",
    model: Model = zoo.DEFAULT,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Print the most probable class of each picture, and its probability under a uniform prior. A picture that is
    unlike the model's test images is marked: its probability means little."""
    from scanline.model.inference import load
    from scanline.server.cli.sampling import outlier_note, picture_files

    pictures = picture_files(pictures)
    loaded = load(model, device=device)
    with model_bar("reading") as progress:
        result = loaded.classify(pictures, clean=clean, progress=progress)
    posterior, bits_per_dim = result.posterior, result.bits / loaded.config.bytes
    tails = [None] * len(pictures) if result.tail_probabilities is None else result.tail_probabilities.tolist()
    if as_json:
        rows = [
            {
                "picture": str(path),
                "class": result.best[row],
                "probabilities": dict(zip(result.class_names, posterior[row].tolist(), strict=True)),
                "bits_per_dim": dict(zip(result.class_names, bits_per_dim[row].tolist(), strict=True)),
                "noisy": bool(result.noisy[row]),
                "tail_probability": tails[row],
                "typical": None if result.typical is None else bool(result.typical[row]),
            }
            for row, path in enumerate(pictures)
        ]
        print(json.dumps({"data": rows}))
        return
    for path, name, probability, tail in zip(pictures, result.best, posterior.max(axis=1), tails, strict=True):
        print(f"{name}  {probability:.4f}  {path}{outlier_note(tail)}")
