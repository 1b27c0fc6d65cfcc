"""scanline export: a model as a checkpoint that the authors' published code reads."""

from pathlib import Path
from typing import Annotated

import typer


def export(
    model: Annotated[str, typer.Argument(help="A shipped model's name or a model directory.")],
    checkpoint: Annotated[Path, typer.Argument(help="weights.pth to write.")],
) -> None:
    """Writes a model that their code can express; what it cannot is told in one sentence."""
    from model import zoo
    from model.authors import write_checkpoint
    from model.checkpoint import load_model, write_atomically

    network = load_model(zoo.find(model))
    write_atomically(checkpoint, lambda path: write_checkpoint(network, path))
    print(f"{checkpoint}: {network.parameter_count:,} parameters as the authors' code names them")
