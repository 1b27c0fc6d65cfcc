"""scanline export: a model as a checkpoint for the authors' published code, or in a page of its
own."""

from pathlib import Path
from typing import Annotated

import typer

from scanline.model.base.precision import DEFAULT
from scanline.server.cli.base.options import MODEL_HELP, Precision

EXPORTED = ".pth"  # what people keep in a model's directory, and export anew


def export(
    model: Annotated[str | None, typer.Argument(help=MODEL_HELP)] = None,
    out: Annotated[
        Path | None, typer.Argument(help="The file of the checkpoint, weights.pth.")
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            "--page",
            metavar="FOLDER",
            help="Write a folder with a page that paints in the browser, without a server.",
        ),
    ] = None,
    of_page: Annotated[
        str | None, typer.Option("--model", help="The model of the page, as MODEL.")
    ] = None,
    precision: Precision = DEFAULT,
) -> None:
    """Write a model as a checkpoint that the authors' code reads, or as a page."""
    from scanline.model import zoo
    from scanline.model.base.atomic import write_file
    from scanline.model.base.named_files import check_no_picture, check_output
    from scanline.model.formats.checkpoint import load_model
    from scanline.model.formats.fast_transformers import write_checkpoint

    named = of_page or model
    target = page or out
    if named is None or (of_page and model):
        raise ValueError("name one model, as MODEL or after --model")
    if target is None or (page and out):
        raise ValueError("name one thing to write: OUT, a checkpoint, or --page FOLDER")
    directory = zoo.find(named)
    if page:
        from scanline.server.cli.base.offline_page import offline_page

        check_output(page, directory.iterdir(), may_be_folder=True)
        if page.is_file():
            raise ValueError(f"{page} is a file; name a folder")
        text = offline_page(directory, precision)
        page.mkdir(exist_ok=True)
        write_file(page / "index.html", text)
        print(f"{page / 'index.html'}: the page and {directory.name} in {len(text) / 1e6:.1f} MB")
        return
    if precision != DEFAULT:
        raise ValueError("--precision is for a page: add --page")
    check_output(target, [path for path in directory.iterdir() if path.suffix != EXPORTED])
    check_no_picture(target)
    network = load_model(directory)
    write_checkpoint(network, target)
    print(f"{target}: {network.parameter_count:,} parameters in the authors' format")
