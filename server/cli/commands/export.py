"""scanline export: a model as a checkpoint for the authors' published code."""

from pathlib import Path
from typing import Annotated

import typer

from scanline.server.cli.base.options import ModelArgument

EXPORTED = ".pth"  # what people keep in a model's directory, and export anew


def export(
    model: ModelArgument,
    out: Annotated[Path, typer.Argument(help="The file to write: weights.pth.")],
) -> None:
    """Write a model as a checkpoint that the authors' code reads."""
    from scanline.model import zoo
    from scanline.model.base.named_files import check_no_picture, check_output
    from scanline.model.formats.checkpoint import load_model
    from scanline.model.formats.fast_transformers import write_checkpoint

    directory = zoo.find(model)
    check_output(out, [path for path in directory.iterdir() if path.suffix != EXPORTED])
    check_no_picture(out)
    network = load_model(directory)
    write_checkpoint(network, out)
    print(f"{out}: {network.parameter_count:,} parameters in the authors' format")
