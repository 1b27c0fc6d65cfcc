"""Options that several commands share, each declared once."""

from pathlib import Path
from typing import Annotated

import typer

from scanline.model import zoo
from scanline.model.precision import PRECISION_HELP

Model = Annotated[str, typer.Option(help="A shipped model's name or a model directory.", show_default=zoo.DEFAULT)]
Seed = Annotated[int | None, typer.Option(min=0, max=2**63 - 1, help="Drawn and told when absent.")]
Temperature = Annotated[float, typer.Option(help="Above 0, up to 2; 1 is the model itself.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Precision = Annotated[str, typer.Option(help=PRECISION_HELP)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object for programs.")]
Data = Annotated[Path, typer.Option(help="Directory with the published files.")]
