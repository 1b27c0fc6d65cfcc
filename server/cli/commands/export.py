"""scanline export: a model as a checkpoint for the authors' published code, or its step as ONNX."""

from pathlib import Path
from typing import Annotated

import typer

from scanline.server.cli.base.options import ModelArgument

EXPORTED = (".onnx", ".pth")  # what people keep in a model's directory, and export anew


def export(
    model: ModelArgument,
    out: Annotated[Path, typer.Argument(help="The file to write: weights.pth or step.onnx.")],
    onnx: Annotated[
        bool, typer.Option("--onnx", help="Write ONNX; implied by a name that ends in .onnx.")
    ] = False,
    weights: Annotated[
        str | None,
        typer.Option(
            help="Weights in the ONNX file: float32, float16 or int8.",
            show_default="float16 where that is exact",
        ),
    ] = None,
) -> None:
    """Write a model as a checkpoint that the authors' code reads, or its recurrent step as ONNX."""
    from scanline.model import zoo
    from scanline.model.base.named_files import check_no_picture, check_output, write_output
    from scanline.model.formats.checkpoint import load_model
    from scanline.model.formats.fast_transformers import write_checkpoint

    onnx = onnx or out.suffix == ".onnx"
    if weights is not None and not onnx:
        raise ValueError("--weights is for ONNX: add --onnx")
    directory = zoo.find(model)
    check_output(out, [path for path in directory.iterdir() if path.suffix not in EXPORTED])
    check_no_picture(out)
    network = load_model(directory)
    if onnx:
        from scanline.model.formats.onnx_step import export_step

        file = export_step(network, weights).SerializeToString()
        write_output(out, file)
        print(
            f"{out}: one step of {network.parameter_count:,} parameters in {len(file) / 1e6:.1f} MB"
        )
        return
    write_checkpoint(network, out)
    print(f"{out}: {network.parameter_count:,} parameters in the authors' format")
