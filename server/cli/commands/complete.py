"""scanline complete: the rest of an occluded picture, several times."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from scanline.model import zoo
from scanline.model.precision import DEFAULT
from scanline.server.cli.options import Device, Json, Model, Precision, Seed, Temperature

if TYPE_CHECKING:
    from scanline.model.config import ModelConfig

OCCLUDED = 128  # grey that stands for a byte to paint


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
    precision: Precision = DEFAULT,
    as_json: Json = False,
) -> None:
    """Completes a picture; a sheet shows it occluded, then the completions, then the original."""
    from scanline.model.device import resolve_device
    from scanline.model.formats.checkpoint import load_model
    from scanline.server.cli.output import SHEETS, check_out, write_images
    from scanline.server.cli.sampling import check_temperature, drawn_seed, paint_with_bar, tell

    check_temperature(temperature)
    check_out(out)
    seed = drawn_seed(seed)
    network = load_model(zoo.find(model), resolve_device(device))
    config = network.config
    original, known = _read(picture, keep_rows, mask, config)
    painted = paint_with_bar(network, n, seed, temperature, original, known, precision)
    images = painted.images
    if out.suffix.lower() in SHEETS:
        occluded = np.where(known, original, np.uint8(OCCLUDED))
        images = np.concatenate((occluded[None], images, original[None]))
    write_images(images.reshape(-1, *config.image_shape), out, columns=n + 2)
    tell(painted, "completions", out, seed, as_json)


def _read(
    picture: Path, keep_rows: int | None, mask: Path | None, config: "ModelConfig"
) -> tuple[np.ndarray, np.ndarray]:
    """The picture's bytes [N] uint8 and which are known, [N] bool; exactly one of three says so."""
    from scanline.model.pictures import known_by_picture, known_rows
    from scanline.server.cli.input import read_picture

    if keep_rows is not None and mask is not None:
        raise ValueError("--keep-rows and --mask exclude each other; give one of them")
    opened, original = read_picture(picture, config)
    if keep_rows is not None:
        return original, known_rows(keep_rows, config)
    if mask is not None:
        return original, known_by_picture(read_picture(mask, config)[0], config, str(mask))
    if opened.has_transparency_data:
        return original, known_by_picture(opened, config, str(picture))
    raise ValueError("give --keep-rows or --mask, or a picture whose alpha is 0 where it shall be painted")
