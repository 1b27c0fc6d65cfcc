"""Pictures that a command reads, and the sheets, arrays and folders that it writes."""

import json
from pathlib import Path

import numpy as np
from PIL import Image

from scanline.model.atomic import write_atomically
from scanline.model.config import ModelConfig
from scanline.model.pictures import encode_image, encode_npy, encode_sheet, file_name, open_picture, pixels

SHEETS = (".png", ".webp")


def read_picture(path: Path, config: ModelConfig) -> tuple[Image.Image, np.ndarray]:
    """Return a picture of the model's size and its bytes [N] uint8; InvalidInput for any other."""
    picture = open_picture(path.read_bytes(), config, str(path))
    return picture, pixels(picture, config)


def check_out(out: Path) -> None:
    """Raise ValueError, before any work, for an --out that cannot be written."""
    if out.suffix and out.suffix.lower() not in (*SHEETS, ".npy"):
        raise ValueError(f"--out {out}: must be a .png or .webp sheet, a .npy array or a folder")
    if not out.absolute().parent.is_dir():
        raise ValueError(f"--out {out}: there is no directory {out.parent}")


def write_images(images: np.ndarray, out: Path, columns: int | None = None) -> None:
    """Write images [n, H, W] or [n, H, W, 3] uint8 in the form that the name of `out` implies.

    columns: of a sheet; None makes it nearly square.
    """
    kind = out.suffix.lower()
    if kind:
        data = encode_npy(images) if kind == ".npy" else encode_sheet(images, kind[1:], columns)
        write_atomically(out, lambda path: path.write_bytes(data))
        return
    out.mkdir(exist_ok=True)
    for index, image in enumerate(images):
        (out / file_name(index, len(images))).write_bytes(encode_image(image, "png"))


def print_summary(bits_per_dim: np.ndarray, what: str, out: Path, seed: int, as_json: bool) -> None:
    """Print what was painted [n], as one line or one JSON object."""
    if as_json:
        summary = {"out": str(out), "n": len(bits_per_dim), "seed": seed, "bits_per_dim": bits_per_dim.tolist()}
        print(json.dumps(summary))
    else:
        print(f"{len(bits_per_dim)} {what} in {out}, seed {seed}, {bits_per_dim.mean():.3f} bits/dim")
