"""Helpers of `sample`, `complete`, `score` and `classify`: read a picture, print a summary."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import typer

from scanline.model import zoo
from scanline.model.base.inputs import InvalidInput
from scanline.model.base.named_files import is_stream
from scanline.model.datasets.given_pictures import GivenPicture, given_pictures, is_whole
from scanline.model.datasets.sources import Refused, left_out
from scanline.model.formats.model_dir import ModelInfo, read_info
from scanline.model.images.cleaning import Clean
from scanline.model.images.given_images import Picture, read_completion
from scanline.model.likelihood.typicality import TYPICAL


def picture_files(
    paths: list[Path], model: str, clean: Clean = "off"
) -> tuple[list[GivenPicture], list[Refused]]:
    """Return pictures, those of folders, tables and arrays too, and what is left out, which is
    printed; an error before the model is loaded where there is none. clean: of those that are read
    whole."""
    refused: list[Refused] = []
    info = read_info(zoo.find(model))
    any_size = info.photos(clean) is not None
    found = given_pictures(paths, info.config, refused, any_size)
    print_left_out(refused)
    return found, refused


def print_left_out(refused: Sequence[Refused]) -> None:
    """Print in one line, beside the results, what was not used."""
    if refused:
        print(left_out(refused), file=sys.stderr)


def as_json_fields(refused: Sequence[Refused]) -> dict[str, object]:
    """Return the field of JSON that lists what was left out; none where that is nothing."""
    return {"left_out": [asdict(picture) for picture in refused]} if refused else {}


def exit_if_broken(refused: Sequence[Refused]) -> None:
    """End with status 1 where a picture that was asked for is not among the results."""
    if not is_whole(refused):
        raise typer.Exit(1)


def mean_line(bits_per_dim: np.ndarray) -> str:
    """Return the line below several pictures: the mean of their bits per
    dimension [n], and its standard error.
    """
    # imports torch: not for `scanline serve`
    from scanline.model.evaluation.metrics import standard_error

    error = standard_error(bits_per_dim)
    return f"mean {bits_per_dim.mean():.4f} +- {error:.4f} bits/dim ({len(bits_per_dim)} images)"


def check_one_mask(keep_rows: int | None, mask: Path | None) -> None:
    """Raise ValueError if both options are given."""
    if keep_rows is not None and mask is not None:
        raise ValueError("--keep-rows and --mask exclude each other; give one of them")


def read_picture(
    picture: Picture, keep_rows: int | None, mask: Path | None, model: ModelInfo, clean: Clean
) -> tuple[np.ndarray, np.ndarray]:
    """Return the bytes [N] uint8 of a picture to complete, and which are kept,
    [N] bool; see `read_completion`.
    """
    try:
        return read_completion(picture, keep_rows, mask, model.config, model.cleaning, clean)
    except InvalidInput as error:
        if error.code != "missing_parameter":
            raise
        raise ValueError(
            "give --keep-rows or --mask, or a picture with alpha 0 where it should be painted"
        ) from None


def outlier_note(tail_probability: float | None) -> str:
    """Return the words for a picture that is not typical; none for others."""
    if tail_probability is None or tail_probability >= TYPICAL:
        return ""
    return f"  unlike what the model knows (p <= {tail_probability:.4f})"


def print_summary(
    bits: np.ndarray,
    what: str,
    out: Path,
    seed: int,
    as_json: bool,
    more: dict[str, object],
    words: str = "",
) -> None:
    """Print what was painted [n], as one line, which ends in `words`, or one JSON
    object, to which `more` belongs.
    """
    if as_json:
        summary = {"out": str(out), "n": len(bits), "seed": seed, "bits_per_dim": bits.tolist()}
        print_result(out, json.dumps(summary | more))
    else:
        print_result(
            out, f"{len(bits)} {what} in {out}, seed {seed}, {bits.mean():.3f} bits/dim{words}"
        )


def print_result(out: Path, line: str) -> None:
    """Print a line to standard output, or to standard error where `out` is a
    stream, which may be the former.
    """
    print(line, file=sys.stderr if is_stream(out) else sys.stdout)
