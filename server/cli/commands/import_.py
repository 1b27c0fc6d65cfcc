"""scanline import: a checkpoint of the authors' published code becomes a model directory."""

from pathlib import Path
from typing import Annotated

import typer


def import_checkpoint(
    checkpoint: Annotated[Path, typer.Argument(help="weights.pth, as their training code writes it.")],
    out: Annotated[Path, typer.Argument(help="The model directory to write.")],
    data: Annotated[
        Path | None,
        typer.Option(help="Directory with the published files: the first byte's histogram is counted there."),
    ] = None,
    heads: Annotated[int | None, typer.Option(min=1, help="Where a head is not 32 wide.")] = None,
    scale: Annotated[str, typer.Option(help="exp, as their loss trains; elu, as their sampler reads it.")] = "exp",
) -> None:
    """Converts a checkpoint strictly, in float32: the model gives the same bits for every byte."""
    from scanline.model import datasets
    from scanline.model.formats.checkpoint import save_model
    from scanline.model.formats.fast_transformers import ForeignCheckpointError, from_state, read_checkpoint

    state = read_checkpoint(checkpoint)
    try:
        histogram = None
        if data is not None:
            channels = 3 if "pos_embedding.pe" in state and state["pos_embedding.pe"].numel() % 3071 == 0 else 1
            images = datasets.load("cifar10" if channels == 3 else "mnist", data, "train")
            histogram = datasets.first_byte_histogram(images)
        model = from_state(state, histogram, heads, scale)
    except ForeignCheckpointError as error:
        raise ValueError(f"{checkpoint}: {error}") from None
    import torch

    save_model(model, out, torch.float32)
    config = model.config
    shape = f"{config.size}, {config.layers} layers of {config.heads} heads of {config.value_width}"
    print(f"{out}: {shape}, {config.components} components, scales read as {config.scale}")
