"""Where painted images go: a contact sheet, an array or a folder, by the name that the user gave."""

from pathlib import Path

import numpy as np

from scanline.model.atomic import write_atomically
from scanline.model.pictures import encode_image, encode_npy, encode_sheet, file_name

SHEETS = (".png", ".webp")


def check_out(out: Path) -> None:
    """ValueError for a name that says nothing we write; asked before the work, not after it."""
    if out.suffix and out.suffix.lower() not in (*SHEETS, ".npy"):
        raise ValueError(f"--out {out}: write a .png or .webp sheet, a .npy array or a folder")
    if not out.absolute().parent.is_dir():
        raise ValueError(f"--out {out}: there is no directory {out.parent}")


def write_images(images: np.ndarray, out: Path, columns: int | None = None) -> None:
    """Writes images [n, H, W] or [n, H, W, 3] uint8; `columns` of a sheet, the nearest square by default."""
    kind = out.suffix.lower()
    if kind:
        data = encode_npy(images) if kind == ".npy" else encode_sheet(images, kind[1:], columns)
        write_atomically(out, lambda path: path.write_bytes(data))
        return
    out.mkdir(exist_ok=True)
    for index, image in enumerate(images):
        (out / file_name(index, len(images))).write_bytes(encode_image(image, "png"))
