"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from scanline.model import zoo
from scanline.model.device import BACKEND_HELP
from scanline.model.inputs import MAX_SEED, MAX_TEMPERATURE
from scanline.model.precision import PRECISION_HELP

Model = Annotated[str, typer.Option(help="Name of a shipped model, or a model directory.", show_default=zoo.DEFAULT)]
ModelArgument = Annotated[str, typer.Argument(help="Name of a shipped model, or a model directory.")]
Seed = Annotated[int | None, typer.Option(min=0, max=MAX_SEED, help="Random seed. Drawn and printed if not given.")]
Temperature = Annotated[
    float,
    typer.Option(help=f"Sampling temperature, above 0 and at most {MAX_TEMPERATURE:g}; 1 is the model itself."),
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Backend = Annotated[str, typer.Option(help=BACKEND_HELP)]
Precision = Annotated[str, typer.Option(help=PRECISION_HELP)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Data = Annotated[Path, typer.Option(help="Directory with the data set's published files.")]
Fetch = Annotated[bool, typer.Option("--fetch", help="Download missing data files into the --data directory.")]
