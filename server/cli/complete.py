"""scanline complete: the rest of an occluded picture, several times."""

import json
import secrets
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from model import zoo
from server.cli.options import Device, Json, Model, Seed, Temperature, check_temperature
from server.cli.output import write_images
from server.cli.progress import progress_bar


def complete(
    picture: Annotated[Path, typer.Argument(help="A picture of the model's size.")],
    keep_rows: Annotated[int | None, typer.Option(min=0, help="Keep the first rows.")] = None,
    mask: Annotated[Path | None, typer.Option(help="Keep where it is white or opaque, paint where it is not.")] = None,
    n: Annotated[int, typer.Option("-n", min=1, help="Completions.")] = 8,
    out: Annotated[Path, typer.Option(help="A .png or .webp row, a .npy array, or a folder/.")] = Path(
        "completions.png"
    ),
    seed: Seed = None,
    temperature: Temperature = 1.0,
    model: Model = zoo.DEFAULT,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Completes a picture; a sheet shows it occluded, then the completions, then the original."""
    from model.checkpoint import load_model
    from model.device import resolve_device
    from model.generator import paint
    from server.api.errors import ApiError
    from server.api.pictures import known_rows
    from server.cli.input import read_mask, read_picture

    check_temperature(temperature)
    if keep_rows is not None and mask is not None:
        raise ValueError("--keep-rows and --mask exclude each other; give one of them")
    network = load_model(zoo.find(model), resolve_device(device))
    config = network.config
    opened, original = read_picture(picture, config)
    if keep_rows is not None:
        try:
            known = known_rows(keep_rows, config)
        except ApiError as error:
            raise ValueError(error.message) from None
    elif mask is not None:
        known = read_mask(read_picture(mask, config)[0], str(mask), config)
    elif opened.has_transparency_data:
        known = read_mask(opened, str(picture), config)
    else:
        raise ValueError("give --keep-rows or --mask, or a picture whose alpha is 0 where it shall be painted")
    seed = secrets.randbits(53) if seed is None else seed
    with progress_bar() as bar:
        task = bar.add_task("painting", total=n * config.bytes, note="bytes")
        painted = paint(
            network,
            n,
            seed=seed,
            temperature=temperature,
            known=original,
            mask=known,
            progress=lambda done: bar.update(task, completed=done),
        )
    images = painted.images.reshape(-1, *config.image_shape)
    if out.suffix.lower() in (".png", ".webp"):
        occluded = np.where(known, original, 128).astype(np.uint8)
        ends = np.stack((occluded, original)).reshape(-1, *config.image_shape)
        write_images(np.concatenate((ends[:1], images, ends[1:])), out, columns=n + 2)
    else:
        write_images(images, out)
    if as_json:
        print(json.dumps({"out": str(out), "n": n, "seed": seed, "bits_per_dim": painted.bits_per_dim.tolist()}))
    else:
        print(f"{n} completions in {out}, seed {seed}, {painted.bits_per_dim.mean():.3f} bits/dim")
