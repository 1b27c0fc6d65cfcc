"""Where painted images go: a contact sheet, an array or a folder, by the name that the user gave."""

from pathlib import Path

import numpy as np
from PIL import Image

from model.checkpoint import write_atomically
from model.contact_sheet import sheet

PICTURES = {".png": "PNG", ".webp": "WEBP"}


def write_images(images: np.ndarray, out: Path, columns: int | None = None) -> None:
    """Writes images [n, H, W] or [n, H, W, 3] uint8; ValueError for a name that says nothing we write."""
    kind = out.suffix.lower()
    if kind in PICTURES:
        picture = sheet(images, columns)
        write_atomically(out, lambda path: picture.save(path, format=PICTURES[kind], lossless=True))
    elif kind == ".npy":
        write_atomically(out, lambda path: _save_array(path, images))
    elif not kind:
        out.mkdir(parents=True, exist_ok=True)
        for index, image in enumerate(images):
            Image.fromarray(image).save(out / f"{index:0{len(str(len(images) - 1))}}.png")
    else:
        raise ValueError(f"--out {out}: write a .png or .webp sheet, a .npy array or a folder")


def _save_array(path: Path, images: np.ndarray) -> None:
    with path.open("wb") as file:
        np.save(file, images)
