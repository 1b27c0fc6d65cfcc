"""scanline import: a checkpoint of the authors' published code as a model directory."""

from pathlib import Path
from typing import Annotated

import typer


def import_checkpoint(
    checkpoint: Annotated[
        Path, typer.Argument(help="weights.pth, as the authors' training code writes it.")
    ],
    out: Annotated[Path, typer.Argument(help="The model directory to write.")],
    data: Annotated[
        Path | None,
        typer.Option(
            help="Directory with the data set's published files, to count the histogram of the first byte."
        ),
    ] = None,
    heads: Annotated[
        int | None, typer.Option(min=1, help="Number of heads.", show_default="heads are 32 wide")
    ] = None,
    scale: Annotated[
        str,
        typer.Option(
            help="How scales are read: exp, as the authors' loss does, or elu, as their sampler does."
        ),
    ] = "exp",
) -> None:
    """Convert a checkpoint of the authors' code, in float32; the model
    gives every byte the same likelihood.
    """
    import torch

    from scanline.model import datasets
    from scanline.model.formats.checkpoint import save_model
    from scanline.model.formats.fast_transformers import (
        ForeignCheckpointError,
        dataset_of,
        from_state,
        read_checkpoint,
    )
    from scanline.model.formats.model_dir import CONFIG, check_out

    check_out(out)
    if (out / CONFIG).exists():
        raise ValueError(f"{out} already holds a model; name another directory")
    state = read_checkpoint(checkpoint)
    try:
        histogram = None
        if data is not None:
            histogram = datasets.first_byte_histogram(
                datasets.load(dataset_of(state), data, "train")
            )
        model = from_state(state, histogram, heads, scale)
    except ForeignCheckpointError as error:
        raise ValueError(f"{checkpoint}: {error}") from None
    save_model(model, out, torch.float32)
    config = model.config
    shape = f"{config.size}, {config.layers} layers of {config.heads} heads of {config.value_width}"
    print(f"{out}: {shape}, {config.components} components, scales read as {config.scale}")
