"""scanline complete: several completions of an occluded picture."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from scanline.model import zoo
from scanline.model.device import AUTO
from scanline.model.inputs import InvalidInput, check_temperature, checked_seed
from scanline.model.precision import DEFAULT
from scanline.server.cli.options import Backend, Device, Json, Model, Precision, Seed, Temperature


def complete(
    picture: Annotated[Path, typer.Argument(help="A picture of the model's image size.")],
    keep_rows: Annotated[int | None, typer.Option(min=0, help="Keep this many rows from the top.")] = None,
    mask: Annotated[
        Path | None, typer.Option(help="A picture: white or opaque where to keep, black or transparent elsewhere.")
    ] = None,
    n: Annotated[int, typer.Option("-n", min=1, help="Number of completions.")] = 8,
    out: Annotated[Path, typer.Option(help="Output: a .png or .webp sheet, a .npy array, or a folder.")] = Path(
        "completions.png"
    ),
    seed: Seed = None,
    temperature: Temperature = 1.0,
    model: Model = zoo.DEFAULT,
    device: Device = "auto",
    precision: Precision = DEFAULT,
    backend: Backend = AUTO,
    as_json: Json = False,
) -> None:
    """Complete an occluded picture. A sheet shows the occluded picture, the completions and the original."""
    from scanline.model.contact_sheet import UNPAINTED
    from scanline.model.device import resolve_backend
    from scanline.model.formats.checkpoint import load_model
    from scanline.model.pictures import SHEETS, check_out, read_completion, save_images
    from scanline.server.cli.sampling import paint_with_bar, print_summary

    if keep_rows is not None and mask is not None:
        raise ValueError("--keep-rows and --mask exclude each other; give one of them")
    check_temperature(temperature)
    check_out(out)
    seed = checked_seed(seed)
    on, backends = resolve_backend(device, backend)
    network = load_model(zoo.find(model), on)
    config = network.config
    try:
        original, known = read_completion(picture, keep_rows, mask, config)
    except InvalidInput as error:
        if error.code != "missing_parameter":
            raise
        raise ValueError(
            "give --keep-rows or --mask, or a picture whose alpha is 0 where it should be painted"
        ) from None
    painted = paint_with_bar(network, n, seed, temperature, original, known, precision, backends)
    images = painted.images
    if out.suffix.lower() in SHEETS:
        occluded = np.where(known, original, np.uint8(UNPAINTED))
        images = np.concatenate((occluded[None], images, original[None]))
    save_images(images.reshape(-1, *config.image_shape), out, columns=n + 2)
    print_summary(painted.bits_per_dim, "completions", out, seed, as_json)
