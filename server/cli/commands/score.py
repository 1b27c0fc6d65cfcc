"""scanline score: likelihoods of given pictures, or of their known pixels alone."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import numpy as np
import typer

from scanline.model import zoo
from scanline.model.base.inputs import checked_seed
from scanline.model.base.sampling_options import Defaults, EstimateOptions
from scanline.model.images.cleaning import Clean
from scanline.model.likelihood.marginal_likelihood import (
    DEFAULT_REPEATS,
    MAX_REPEATS,
    check_repeats,
)
from scanline.model.likelihood.typicality import TYPICAL
from scanline.model.tasks.estimate import EstimateValues
from scanline.server.cli.base.options import (
    Class,
    CleanOption,
    Device,
    Json,
    KeepRows,
    Mask,
    Model,
    Seed,
    with_sampling,
)
from scanline.server.cli.base.progress import model_bar

if TYPE_CHECKING:
    from scanline.model.datasets.sources import Source
    from scanline.model.inference import Model as Loaded


@with_sampling
def score(
    pictures: Annotated[
        list[Path], typer.Argument(help="Pictures of the model's image size, or folders of them.")
    ],
    keep_rows: KeepRows = None,
    mask: Mask = None,
    class_name: Class = None,
    *,
    repeats: Annotated[
        int | None,
        typer.Option(
            help=f"Completions of each picture for its estimate, 2 to {MAX_REPEATS}.",
            show_default=str(DEFAULT_REPEATS),
        ),
    ] = None,
    seed: Seed = None,
    clean: CleanOption = "off",
    model: Model = zoo.DEFAULT,
    device: Device = "auto",
    as_json: Json = False,
    **sampling: Unpack[EstimateOptions],
) -> None:
    """Print the bits per dimension of each picture, or with --keep-rows or --mask an estimate for
    its known pixels alone, with its standard error."""
    from scanline.model.inference import load
    from scanline.server.cli.base.sampling import (
        as_json_fields,
        check_one_mask,
        exit_if_broken,
        mean_line,
        outlier_note,
        picture_files,
    )

    # Whatever is wrong with an option is said before the model is loaded, which takes seconds.
    check_one_mask(keep_rows, mask)
    is_estimate = keep_rows is not None or mask is not None
    options = {**sampling, "repeats": repeats, "seed": seed}
    for name, value in options.items():
        if value is not None and not is_estimate:
            raise ValueError(f"--{name} is for estimates; give --keep-rows or --mask as well")
    Defaults().to_estimate(0, sampling)
    seed = checked_seed(seed)  # one for all pictures, which JSON repeats
    repeats = check_repeats(DEFAULT_REPEATS if repeats is None else repeats)
    found, refused = picture_files(pictures, model, "off" if is_estimate else clean)
    sources = [picture.source for picture in found]
    loaded = load(model, device=device)
    if is_estimate:
        known_by = "keep_rows" if mask is None else str(mask)
        values = EstimateValues(1, repeats, seed, class_name, sampling, known_by)
        rows = _estimates(loaded, values, sources, keep_rows, mask, clean)
    else:
        rows = _scores(loaded, sources, clean, class_name)
    rows = [{"picture": picture.name} | row for picture, row in zip(found, rows, strict=True)]
    if as_json:
        print(
            json.dumps(
                {"data": rows} | ({"seed": seed} if is_estimate else {}) | as_json_fields(refused)
            )
        )
    for row in [] if as_json else rows:
        error = f" +/- {row['standard_error']:.4f}" if is_estimate else ""
        print(
            f"{row['bits_per_dim']:.4f}{error}  {row['picture']}{outlier_note(row.get('tail_probability'))}"
        )
    if len(rows) > 1 and not as_json:
        print(mean_line(np.array([row["bits_per_dim"] for row in rows])))
    exit_if_broken(refused)


def _scores(
    loaded: "Loaded", pictures: list["Source"], clean: Clean, class_name: str | None
) -> list[dict[str, Any]]:
    """Read whole pictures, and compare them with the model's test images."""
    with model_bar("reading") as progress:
        scores = loaded.scores(pictures, clean=clean, class_name=class_name, progress=progress)
    figures = zip(scores.bits, scores.noisy.tolist(), strict=True)
    rows: list[dict[str, Any]] = [
        {"bits_per_dim": float(bits.mean()), "noisy": noisy} for bits, noisy in figures
    ]
    if scores.tail_probabilities is not None:
        for row, tail in zip(rows, scores.tail_probabilities.tolist(), strict=True):
            row |= {"tail_probability": tail, "typical": tail >= TYPICAL}
    return rows


def _estimates(
    loaded: "Loaded",
    values: EstimateValues,
    pictures: list["Source"],
    keep_rows: int | None,
    mask: Path | None,
    clean: Clean,
) -> list[dict[str, Any]]:
    """Complete pictures, and estimate from the completions what their known pixels cost."""
    from scanline.model.tasks import estimate
    from scanline.server.cli.base.sampling import read_picture

    tasks = []
    for path in pictures:
        image, kept = read_picture(path, keep_rows, mask, loaded.info, clean)
        task = estimate.plan(loaded.info, values)
        task.fill([image.tobytes()], [kept.tobytes()])
        tasks.append(task)
    with model_bar("painting") as progress:
        loaded.run(tasks, "painting", progress)
    rows = []
    for task in tasks:
        (estimated,) = task.result().estimates
        rows.append({
            "bits_per_dim": estimated.bits_per_dim,
            "standard_error": estimated.standard_error_per_dim,
            "known_bytes": estimated.known_bytes,
            **task.request.kind_of(0).copies,
        })  # fmt: skip
    return rows
