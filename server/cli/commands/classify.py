"""scanline classify: the most probable class of pictures."""

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from scanline.model import zoo
from scanline.server.cli.base.options import CleanOption, Device, Json, Model
from scanline.server.cli.base.progress import model_bar


def classify(
    pictures: Annotated[
        list[Path], typer.Argument(help="Pictures of the model's image size, or folders of them.")
    ],
    by_bits: Annotated[
        bool,
        typer.Option(
            "--by-bits/--no-by-bits",
            help="Where a class head reads the pictures, also read each under every class: ten or twenty times slower.",
        ),
    ] = False,
    clean: CleanOption = "auto",
    model: Model = zoo.DEFAULT,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Print the most probable class of each picture, and its probability under a uniform prior: by
    the model's class head, or by bits where it has none. A picture that is unlike the model's test
    images, for more than its noise, has none."""
    from scanline.model.inference import load
    from scanline.server.cli.base.sampling import (
        as_json_fields,
        exit_if_broken,
        outlier_note,
        picture_files,
    )

    files, refused = picture_files(pictures, model, clean)
    names = [picture.name for picture in files]
    loaded = load(model, device=device)
    with model_bar("reading") as progress:
        sources = [picture.source for picture in files]
        result = loaded.classify(sources, by_bits=by_bits, clean=clean, progress=progress)

    def named(values: np.ndarray | None, row: int) -> dict[str, float] | None:
        return (
            None
            if values is None
            else dict(zip(result.class_names, values[row].tolist(), strict=True))
        )

    # These are computed for all pictures at each access.
    posterior = result.posterior
    of_bits = result.posterior_by_bits
    best = result.best
    typical = [None] * len(names) if result.typical is None else result.typical.tolist()
    bits_per_dim = None if result.bits is None else result.bits / loaded.config.bytes
    tails = (
        [None] * len(names)
        if result.tail_probabilities is None
        else result.tail_probabilities.tolist()
    )
    if as_json:
        rows = [
            {
                "picture": path,
                "class": best[row],
                "probabilities": named(posterior, row),
                "read_by": "bits" if result.logits is None else "head",
                "probabilities_by_bits": named(of_bits, row),
                "bits_per_dim": named(bits_per_dim, row),
                "noisy": bool(result.noisy[row]),
                "tail_probability": tails[row],
                "typical": typical[row],
            }
            for row, path in enumerate(names)
        ]
        print(json.dumps({"data": rows} | as_json_fields(refused)))
        exit_if_broken(refused)
        return
    for row, (path, name, known, tail) in enumerate(
        zip(names, best, result.known, tails, strict=True)
    ):
        if not known:  # JSON has the class all the same, beside `typical`
            print(f"-  -  {path}{outlier_note(tail)}")
            continue
        other = "  with noise" if result.noisy[row] else ""
        if result.logits is not None and of_bits is not None:
            other += (
                f"  by bits: {result.class_names[of_bits[row].argmax()]}  {of_bits[row].max():.4f}"
            )
        print(f"{name}  {posterior[row].max():.4f}  {path}{other}")
    exit_if_broken(refused)
