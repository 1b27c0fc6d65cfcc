"""scanline export: a model as a checkpoint that the authors' published code reads, or as one ONNX step."""

from pathlib import Path
from typing import Annotated

import typer


def export(
    model: Annotated[str, typer.Argument(help="A shipped model's name or a model directory.")],
    out: Annotated[Path, typer.Argument(help="weights.pth or step.onnx to write.")],
    onnx: Annotated[bool, typer.Option("--onnx", help="As ONNX; a file that ends in .onnx is so anyway.")] = False,
    weights: Annotated[
        str | None,
        typer.Option(
            help="Of the ONNX file: float32, float16 or int8.", show_default="float16 where that loses nothing"
        ),
    ] = None,
) -> None:
    """Writes a model as a checkpoint that the authors' code reads, or its recurrent step as ONNX."""
    from scanline.model import zoo
    from scanline.model.atomic import write_atomically
    from scanline.model.formats.checkpoint import load_model
    from scanline.model.formats.fast_transformers import write_checkpoint

    onnx = onnx or out.suffix == ".onnx"
    if weights is not None and not onnx:
        raise ValueError("--weights is for ONNX: add --onnx")
    network = load_model(zoo.find(model))
    if onnx:
        from scanline.model.formats.onnx_step import export_step

        file = export_step(network, weights).SerializeToString()
        write_atomically(out, lambda path: path.write_bytes(file))
        print(f"{out}: one step of {network.parameter_count:,} parameters in {len(file) / 1e6:.1f} MB")
        return
    write_atomically(out, lambda path: write_checkpoint(network, path))
    print(f"{out}: {network.parameter_count:,} parameters as the authors' code names them")
