"""scanline export: a model as a checkpoint for the authors' published code, or in a page of its
own."""

from pathlib import Path
from typing import Annotated

import typer

from scanline.model.base.precision import DEFAULT
from scanline.server.cli.base.options import ModelArgument, Precision

EXPORTED = ".pth"  # what people keep in a model's directory, and export anew


def export(
    model: ModelArgument,
    out: Annotated[Path, typer.Argument(help="The file to write, weights.pth, or the folder.")],
    page: Annotated[
        bool,
        typer.Option(
            "--page",
            help="Write a folder with a page that paints in the browser, without a server.",
        ),
    ] = False,
    precision: Precision = DEFAULT,
) -> None:
    """Write a model as a checkpoint that the authors' code reads, or as a page."""
    from scanline.model import zoo
    from scanline.model.base.atomic import write_file
    from scanline.model.base.named_files import check_no_picture, check_output
    from scanline.model.formats.checkpoint import load_model
    from scanline.model.formats.fast_transformers import write_checkpoint

    directory = zoo.find(model)
    if page:
        from scanline.server.cli.base.offline_page import offline_page

        check_output(out, directory.iterdir(), may_be_folder=True)
        if out.is_file():
            raise ValueError(f"{out} is a file; name a folder")
        text = offline_page(directory, precision)
        out.mkdir(exist_ok=True)
        write_file(out / "index.html", text)
        print(f"{out / 'index.html'}: the page and {directory.name} in {len(text) / 1e6:.1f} MB")
        return
    if precision != DEFAULT:
        raise ValueError("--precision is for a page: add --page")
    check_output(out, [path for path in directory.iterdir() if path.suffix != EXPORTED])
    check_no_picture(out)
    network = load_model(directory)
    write_checkpoint(network, out)
    print(f"{out}: {network.parameter_count:,} parameters in the authors' format")
