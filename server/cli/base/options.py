"""Options that several commands share."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from scanline.model import zoo
from scanline.model.base.device import BACKEND_HELP
from scanline.model.base.inputs import MAX_SEED
from scanline.model.base.precision import PRECISION_HELP
from scanline.model.base.sampling_options import spelled_out
from scanline.model.images import film as films
from scanline.model.images.cleaning import Clean
from scanline.model.images.film import DEFAULT_FRAMES, DEFAULT_SCALE, MAX_FRAMES, MIN_FRAMES


def sampling_option(kind: Any) -> Any:
    """Return the command's option of a field of SamplingOptions."""
    words, default = kind.__metadata__
    return typer.Option(help=words, show_default=default)


with_sampling = partial(
    spelled_out, shown_as=lambda kind: Annotated[get_args(kind)[0], sampling_option(kind)]
)
MODEL_HELP = "Name of a shipped model, a model directory, or of the Hugging Face Hub ORG/NAME or ORG/NAME@REVISION."
Model = Annotated[str, typer.Option(help=MODEL_HELP, show_default=zoo.DEFAULT)]
ModelArgument = Annotated[str, typer.Argument(help=MODEL_HELP)]
Seed = Annotated[
    int | None,
    typer.Option(min=-1, max=MAX_SEED, help="Random seed. Drawn and printed if absent or -1."),
]
Class = Annotated[
    str | None, typer.Option("--class", help="Class of the images, by its name or a synonym.")
]
PaintedClass = Annotated[
    str | None,
    typer.Option(
        "--class",
        help="Class of the images, by its name or a synonym; any draws one for each image; none leaves it open."
        " Several classes of one character each, such as 2026, paint one image of each.",
        show_default="the model's",
    ),
]
KeepRows = Annotated[int | None, typer.Option(min=0, help="Keep this many rows from the top.")]
Mask = Annotated[
    Path | None, typer.Option(help="A picture whose white or opaque pixels mark what to keep.")
]
CleanOption = Annotated[
    Clean,
    typer.Option(
        help="auto removes noise, and of whole pictures paper, and centres them, for models of drawings; off does not."
    ),
]
Invert = Annotated[
    bool,
    typer.Option(
        "--invert",
        help="Swap dark and light, for a model whose drawings are light on dark: ink on paper.",
    ),
]
Film = Annotated[
    bool,
    typer.Option(
        "--film",
        help="Write an animation of the painting. A .gif or .apng is one anyway; .webp and .png may be.",
    ),
]
Frames = Annotated[
    int | None,
    typer.Option(
        help=f"Frames of a film, {MIN_FRAMES} to {MAX_FRAMES}.", show_default=str(DEFAULT_FRAMES)
    ),
]
Seconds = Annotated[
    float | None,
    typer.Option(
        help=f"Seconds of a film until its last frame, {films.MIN_SECONDS} to {films.MAX_SECONDS:g}.",
        show_default=f"{films.DEFAULT_SECONDS:g}",
    ),
]
Scale = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=films.MAX_SCALE,
        help="Pixels of a film or a sheet to one of the images; a sheet then has gaps.",
        show_default=f"1; of a film up to {DEFAULT_SCALE}, while it has at most {films.DEFAULT_SIDE} pixels a side",
    ),
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Backend = Annotated[str, typer.Option(help=BACKEND_HELP)]
Precision = Annotated[str, typer.Option(help=PRECISION_HELP)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Data = Annotated[Path, typer.Option(help="Directory with the data set's published files.")]
Fetch = Annotated[
    bool, typer.Option("--fetch", help="Download missing data files into the --data directory.")
]
