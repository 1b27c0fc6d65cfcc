"""Helpers of `sample`, `complete`, `score` and `classify`: read a picture, print a summary."""

import json
import sys
from pathlib import Path

import numpy as np

from scanline.model.datasets.folder import files_below
from scanline.model.formats.model_dir import ModelInfo
from scanline.model.images.cleaning import Clean
from scanline.model.images.given_images import read_completion
from scanline.model.inputs import InvalidInput
from scanline.model.likelihood.typicality import TYPICAL
from scanline.model.named_files import STREAM, check_file, is_stream

SUFFIXES = (".png", ".webp", ".jpg", ".jpeg", ".bmp")  # of the pictures in a folder


def picture_files(given: list[Path]) -> list[Path]:
    """Return picture files and those below folders, in the order of their names; OSError or ValueError, before a model
    is loaded, where there is none."""
    files: list[Path] = []
    for path in given:
        if path.is_dir():
            found = [file for file in files_below(path, []) if file.suffix.lower() in SUFFIXES]
            if not found:
                raise ValueError(f"{path} holds no PNG, WebP, JPEG or BMP picture")
            files += found
        else:
            if path != STREAM:
                check_file(path)
                path.open("rb").close()  # raises what is wrong
            files.append(path)
    return files


def mean_line(bits_per_dim: np.ndarray) -> str:
    """Return the line below several pictures: the mean of their bits per dimension [n], and its standard error."""
    from scanline.model.evaluation.metrics import standard_error  # imports torch: not for `scanline serve`

    error = standard_error(bits_per_dim)
    return f"mean {bits_per_dim.mean():.4f} +- {error:.4f} bits/dim ({len(bits_per_dim)} images)"


def check_one_mask(keep_rows: int | None, mask: Path | None) -> None:
    """Raise ValueError if both options are given."""
    if keep_rows is not None and mask is not None:
        raise ValueError("--keep-rows and --mask exclude each other; give one of them")


def read_picture(
    picture: Path, keep_rows: int | None, mask: Path | None, model: ModelInfo, clean: Clean
) -> tuple[np.ndarray, np.ndarray]:
    """Return the bytes [N] uint8 of a picture to complete, and which are kept, [N] bool; see `read_completion`."""
    try:
        return read_completion(picture, keep_rows, mask, model.config, model.cleaning, clean)
    except InvalidInput as error:
        if error.code != "missing_parameter":
            raise
        raise ValueError("give --keep-rows or --mask, or a picture with alpha 0 where it should be painted") from None


def outlier_note(tail_probability: float | None, ground: int | None = None) -> str:
    """Return the words for a picture that is not typical; none for others. ground: the model's, where the picture is
    inverted."""
    if tail_probability is None or tail_probability >= TYPICAL:
        return ""
    note = f"  unlike what the model knows (p <= {tail_probability:.4f})"
    if ground is None:
        return note
    kinds = ("light on dark", "dark on light") if ground else ("dark on light", "light on dark")
    return f"{note}: it is {kinds[0]}, and the model's images are {kinds[1]}; try --invert"


def print_summary(
    bits: np.ndarray, what: str, out: Path, seed: int, as_json: bool, more: dict[str, object], words: str = ""
) -> None:
    """Print what was painted [n], as one line, which ends in `words`, or one JSON object, to which `more` belongs."""
    if as_json:
        summary = {"out": str(out), "n": len(bits), "seed": seed, "bits_per_dim": bits.tolist()}
        print_result(out, json.dumps(summary | more))
    else:
        print_result(out, f"{len(bits)} {what} in {out}, seed {seed}, {bits.mean():.3f} bits/dim{words}")


def print_result(out: Path, line: str) -> None:
    """Print a line to standard output, or to standard error where `out` is a stream, which may be the former."""
    print(line, file=sys.stderr if is_stream(out) else sys.stdout)
