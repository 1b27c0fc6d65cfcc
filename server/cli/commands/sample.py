"""scanline sample: paint images into a picture, an array or a folder,
on this machine or on a cluster.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Unpack

import numpy as np
import typer

from scanline.model import zoo
from scanline.model.base.device import AUTO
from scanline.model.base.extras import MissingExtraError
from scanline.model.base.inputs import checked_seed
from scanline.model.base.precision import DEFAULT
from scanline.model.base.sampling_options import GenerationOptions
from scanline.server.cli.base import options
from scanline.server.cli.base.progress import model_bar

IMAGES = 64
IMAGES_OF_EACH_CLASS = 10


@options.with_sampling
def sample(
    n: Annotated[
        int | None,
        typer.Option(
            "-n",
            min=1,
            help="Number of images, or of images of each class.",
            show_default="64, or 10",
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="Output: a .png or .webp sheet, a .gif film, a .npy array, or a folder. A folder has the"
            " classes in classes.csv, an array X.npy in X.classes.csv.",
        ),
    ] = Path("samples.png"),
    invert: options.Invert = False,
    film: options.Film = False,
    frames: options.Frames = None,
    seconds: options.Seconds = None,
    scale: options.Scale = None,
    seed: options.Seed = None,
    *,
    class_name: options.PaintedClass = None,
    each_class: Annotated[
        bool,
        typer.Option(
            "--each-class", help="Paint images of every class. A sheet has a row for each."
        ),
    ] = False,
    model: options.Model = zoo.DEFAULT,
    device: options.Device = "auto",
    precision: options.Precision = DEFAULT,
    backend: options.Backend = AUTO,
    cluster: Annotated[
        str | None,
        typer.Option(
            help="Paint on the replicas of a service on this Ray cluster (auto or host:port), into a folder."
            " The same command resumes an interrupted run."
        ),
    ] = None,
    as_json: options.Json = False,
    **sampling: Unpack[GenerationOptions],
) -> None:
    """Paint images and write them to a sheet, a film of their painting, an array or a folder."""
    if cluster is None:
        zoo.find(model)  # before torch is imported, which takes seconds: raises for a wrong name
    from scanline.model.base.class_names import listed_in
    from scanline.model.base.named_files import check_output
    from scanline.model.images.saving import (
        check_folder,
        check_sheet,
        film_of,
        save_classes,
        save_images,
    )
    from scanline.model.inference import load
    from scanline.model.tasks import paint
    from scanline.model.tasks.paint import PaintValues
    from scanline.server.cli.base.sampling import print_summary

    shown_film = film_of(out, film, frames, seconds, scale)
    check_output(out, [] if cluster else [zoo.find(model)], may_be_folder=True)
    if each_class and class_name is not None:
        raise ValueError("--class and --each-class exclude each other; give one of them")
    if cluster is not None:
        if (device, precision, backend) != ("auto", DEFAULT, AUTO):
            raise ValueError(
                "--device, --precision and --backend are settings of the service; leave them out with --cluster"
            )
        if each_class:
            raise ValueError(
                "--each-class paints on this machine; with --cluster, give --class once for each class"
            )
        if invert:
            raise ValueError(
                "--invert is for images that this machine paints; leave it out with --cluster"
            )
        _sample_on_cluster(cluster, model, n, out, seed, class_name, sampling, as_json)
        return
    seed = checked_seed(seed)
    loaded = load(model, device=device, precision=precision, backend=backend)
    config = loaded.config

    # One task for each class, or one for all images.
    if each_class and not config.classes:
        raise ValueError("This model knows no classes; leave --each-class out.")
    listed = [] if class_name is None else listed_in(config, class_name)
    names: Sequence[str | Sequence[str] | None] = (
        config.class_names if each_class else (listed or class_name,)
    )
    if n is None and each_class:
        n = IMAGES_OF_EACH_CLASS
    elif n is None and not listed:  # of a list, one image of each of its classes
        n = IMAGES
    values = PaintValues(n=n, seed=seed, sampling=sampling)
    tasks = [paint.plan(loaded.info, replace(values, class_name=name)) for name in names]
    n = tasks[0].count
    columns = n if each_class else tasks[0].columns
    check_sheet(out, shown_film, n * len(tasks), config, columns, scale or 1)
    check_folder(out, n * len(tasks))
    with model_bar("painting") as progress:
        loaded.run(tasks, "painting", progress)
    painted = [task.result() for task in tasks]
    images = np.stack([batch.images for batch in painted]).reshape(-1, n, *config.image_shape)
    shown = [name for batch in painted for name in batch.class_names(config)]
    images = 255 - images if invert else images
    recipe = loaded.recipe_of(tasks)
    if recipe and invert:
        recipe["invert"] = True
    if each_class:
        save_classes(
            images, config.class_names, out, shown_film, scale or 1, classes=shown, recipe=recipe
        )
    else:
        save_images(
            images[0],
            out,
            columns,
            film=shown_film,
            scale=scale or 1,
            classes=shown,
            recipe=recipe,
        )
    bits = np.concatenate([batch.bits_per_dim for batch in painted])
    more: dict[str, object] = {**tasks[0].used}
    if shown:
        more["classes"] = shown
    print_summary(bits, "images", out, seed, as_json, more)


def _sample_on_cluster(
    address: str,
    model: str,
    n: int | None,
    out: Path,
    seed: int | None,
    class_name: str | None,
    sampling: GenerationOptions,
    as_json: bool,
) -> None:
    """Paint the images that the folder lacks; ValueError where the
    service or the folder does not fit.
    """
    import asyncio

    from scanline.server.engine.job import EngineFailedError

    if out.suffix:
        raise ValueError(f"--out {out}: --cluster writes into a folder")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        from scanline.server.cluster import folder
    except ImportError:
        raise MissingExtraError("--cluster", "cluster") from None
    recipe = folder.Recipe(model, n, checked_seed(seed), class_name, sampling)
    recipe = folder.open_folder(out, recipe, seed is None)
    with model_bar("painting", "images") as progress:
        try:
            n, bits = asyncio.run(folder.paint_folder(address, recipe, out, progress, IMAGES))
        except EngineFailedError as error:
            raise ValueError(
                f"{error} {out} keeps what was painted; the same command resumes."
            ) from None
    if as_json:
        painted = {"painted": len(bits), "bits_per_dim": bits}
        print(json.dumps({"out": str(out), "n": n, "seed": recipe.seed, **painted}))
    else:
        mean = f", {sum(bits) / len(bits):.3f} bits/dim" if bits else ""
        print(
            f"{n} images in {out}, seed {recipe.seed}, {len(bits)} of them painted in this run{mean}"
        )
