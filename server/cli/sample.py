"""scanline sample: images from nothing, into a picture, an array or a folder."""

import json
import secrets
from pathlib import Path
from typing import Annotated

import typer

from model import zoo
from server.cli.options import Device, Json, Model, Seed, Temperature, check_temperature
from server.cli.output import write_images
from server.cli.progress import progress_bar


def sample(
    n: Annotated[int, typer.Option("-n", min=1, help="Images to paint.")] = 64,
    out: Annotated[Path, typer.Option(help="A .png or .webp sheet, a .npy array, or a folder/.")] = Path("samples.png"),
    seed: Seed = None,
    temperature: Temperature = 1.0,
    model: Model = zoo.DEFAULT,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Paints images and writes them where a person would want a picture."""
    from model.checkpoint import load_model
    from model.device import resolve_device
    from model.generator import paint

    check_temperature(temperature)
    seed = secrets.randbits(53) if seed is None else seed
    network = load_model(zoo.find(model), resolve_device(device))
    config = network.config
    with progress_bar() as bar:
        task = bar.add_task("painting", total=n * config.bytes, note="bytes")
        painted = paint(
            network,
            n,
            seed=seed,
            temperature=temperature,
            progress=lambda done: bar.update(task, completed=done),
        )
    write_images(painted.images.reshape(-1, *config.image_shape), out)
    bits = float(painted.bits_per_dim.mean())
    if as_json:
        print(json.dumps({"out": str(out), "n": n, "seed": seed, "bits_per_dim": painted.bits_per_dim.tolist()}))
    else:
        print(f"{n} images in {out}, seed {seed}, {bits:.3f} bits/dim")
