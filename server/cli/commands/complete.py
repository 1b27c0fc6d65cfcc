"""scanline complete: several completions of occluded pictures."""

from pathlib import Path
from typing import Annotated, Unpack

import numpy as np
import typer

from scanline.model import zoo
from scanline.model.base.device import AUTO
from scanline.model.base.inputs import checked_seed
from scanline.model.base.precision import DEFAULT
from scanline.model.base.sampling_options import CompletionOptions
from scanline.server.cli.base import options
from scanline.server.cli.base.progress import model_bar

LABELLED_SCALE = 4  # of a sheet with labels, where none is given


@options.with_sampling
def complete(
    pictures: Annotated[
        list[Path], typer.Argument(help="Pictures of the model's image size, or folders of them.")
    ],
    keep_rows: options.KeepRows = None,
    mask: options.Mask = None,
    n: Annotated[int, typer.Option("-n", min=1, help="Number of completions of each picture.")] = 8,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="Output: a .png or .webp sheet, a .gif film, a .npy array, or a folder.",
        ),
    ] = Path("completions.png"),
    film: options.Film = False,
    frames: options.Frames = None,
    seconds: options.Seconds = None,
    scale: options.Scale = None,
    labels: Annotated[
        bool,
        typer.Option(
            "--labels",
            help="Write names into a sheet or a film: of columns, and of several pictures.",
        ),
    ] = False,
    seed: options.Seed = None,
    *,
    class_name: options.Class = None,
    clean: options.CleanOption = "off",
    model: options.Model = zoo.DEFAULT,
    device: options.Device = "auto",
    precision: options.Precision = DEFAULT,
    backend: options.Backend = AUTO,
    as_json: options.Json = False,
    **sampling: Unpack[CompletionOptions],
) -> None:
    """Complete occluded pictures. A sheet or a film has a row for each: as
    occluded, its completions, the original.
    """
    from scanline.model.base.named_files import check_output
    from scanline.model.datasets.compress_input import input_files
    from scanline.model.images.contact_sheet import UNPAINTED
    from scanline.model.images.saving import (
        FILMS,
        check_folder,
        check_sheet,
        film_of,
        save_classes,
        save_images,
    )
    from scanline.model.inference import load
    from scanline.model.sampling.kinds.evidence import summary
    from scanline.model.tasks import paint
    from scanline.model.tasks.paint import CompleteValues
    from scanline.server.cli.base.sampling import (
        as_json_fields,
        check_one_mask,
        exit_if_broken,
        picture_files,
        print_summary,
        read_picture,
    )

    check_one_mask(keep_rows, mask)
    shown_film = film_of(out, film, frames, seconds, scale)
    scale = scale or (LABELLED_SCALE if labels else 1)
    check_output(
        out,
        [*input_files(pictures), *([mask] if mask else []), zoo.find(model)],
        may_be_folder=True,
    )
    found, refused = picture_files(pictures, model)
    check_folder(out, len(found) * n)
    seed = checked_seed(seed)
    loaded = load(model, device=device, precision=precision, backend=backend)
    config = loaded.config
    values = CompleteValues(n=n, seed=seed, class_name=class_name, sampling=sampling)
    inputs = [
        read_picture(picture.source, keep_rows, mask, loaded.info, clean) for picture in found
    ]
    tasks = [paint.plan(loaded.info, values) for _ in inputs]
    for task, (original, known) in zip(tasks, inputs, strict=True):
        task.fill([original.tobytes()], [known.tobytes()])
    check_sheet(out, shown_film, len(inputs) * (n + 2), config, n + 2, scale)
    with model_bar("painting") as progress:
        loaded.run(tasks, "painting", progress)
    painted = [task.result() for task in tasks]

    # Sheets and films also show each picture, occluded and whole.
    images = np.stack([one.images for one in painted])
    kept = np.stack([one.known for one in painted if one.known is not None])
    if out.suffix.lower() in FILMS:
        occluded = [np.where(known, original, np.uint8(UNPAINTED)) for original, known in inputs]
        originals = [original for original, _ in inputs]
        images = np.concatenate(
            (np.stack(occluded)[:, None], images, np.stack(originals)[:, None]), 1
        )
        kept = np.pad(kept, ((0, 0), (1, 1), (0, 0), (0, 0)), constant_values=True)
    images = images.reshape(len(inputs), -1, *config.image_shape)
    kept = kept.reshape(-1, config.height, config.width)
    classes = [name for one in painted for name in one.class_names(config)]
    recipe = loaded.recipe_of(tasks)
    if recipe and labels:
        recipe["labels"] = True
    if labels:
        rows = [Path(picture.name).stem for picture in found] if len(found) > 1 else ()
        columns = ("occluded", *map(str, range(1, n + 1)), "original")
        save_classes(images, rows, out, shown_film, scale, columns, kept, classes, recipe)
    else:
        save_images(
            images.reshape(-1, *config.image_shape),
            out,
            n + 2,
            shown_film,
            kept,
            scale=scale,
            classes=classes,
            recipe=recipe,
        )

    bits = np.concatenate([one.bits_per_dim for one in painted])
    words, evidence = summary(painted, tasks[0].request.kind_of(0))
    more: dict[str, object] = {**tasks[0].used}
    if tasks[0].label(0):
        more["class"] = classes[0]
    more |= evidence | as_json_fields(refused)
    print_summary(bits, "completions", out, seed, as_json, more, words)
    exit_if_broken(refused)
