"""scanline decompress: the pictures of a file of codes."""

import json
from pathlib import Path
from typing import Annotated

import typer

from scanline.model import zoo
from scanline.model.base.device import AUTO
from scanline.server.cli.base import options
from scanline.server.cli.base.progress import model_bar
from scanline.server.cli.base.sampling import print_result


def decompress(
    file: Annotated[Path, typer.Argument(help="A file of `scanline compress`; -: standard input.")],
    more: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="Output: a .png or .webp picture or sheet, a .gif film, a .npy array, or a folder.",
        ),
    ] = Path("images"),
    images: Annotated[
        list[str] | None,
        typer.Option(
            help="Which images, from 0: numbers and ranges, as 3 17-20.", show_default="all"
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help=options.MODEL_HELP, show_default="a shipped one of the images' size"),
    ] = None,
    device: options.Device = "auto",
    backend: options.Backend = AUTO,
    as_json: options.Json = False,
) -> None:
    """Decompress pictures to what they were, byte for byte, with the model that
    compressed them, on any processor.
    """
    if more and not images:
        raise ValueError(f"{more[0]}: give one file; which images it is about is for --images")
    from scanline.model.base.inputs import ranges
    from scanline.model.base.named_files import check_output, read_input
    from scanline.model.formats.code_file import MAX_AT_ONCE, read
    from scanline.model.formats.model_dir import load_config
    from scanline.model.images.saving import check_folder, check_out, check_sheet, save_images
    from scanline.model.inference import load

    shown_film = check_out(out)
    check_output(out, [file], may_be_folder=True)
    codes = read(read_input(file), str(file))
    if codes.count > MAX_AT_ONCE and not images:
        raise ValueError(
            f"{file} holds {codes.count:,} images, more than {MAX_AT_ONCE:,}; choose some by --images"
        )
    wanted = None
    if images:  # an option takes one value: those that follow it are in `more`
        parts = ranges(" ".join([*images, *(more or ())]), codes.count, "--images")
        wanted = [number for part in parts for number in part]
    size = codes.height, codes.width, codes.channels
    # a file has no name of its model; check_model says below whether this one is it
    if model is None:
        configs = {name: load_config(zoo.find(name)) for name in zoo.names()}
        sizes = {
            name: (config.height, config.width, config.channels) for name, config in configs.items()
        }
        model = next((name for name in sizes if sizes[name] == size), None)
    if model is None:
        raise ValueError(f"{file} is of no shipped model; give --model")
    loaded = load(model, device=device, precision=codes.precision, backend=backend)
    codes.check_model(loaded.codings, loaded.precision, loaded.config, str(file))
    check_sheet(out, shown_film, len(wanted or range(codes.count)), loaded.config)
    check_folder(out, codes.count)
    with model_bar("decoding") as progress:
        found, labels = loaded.decode(codes, wanted, str(file), progress)
    names = (None, *loaded.config.class_names)
    save_images(
        found.reshape(-1, *loaded.config.image_shape),
        out,
        film=shown_film,
        numbers=wanted,
        count=codes.count,
        classes=[names[label] for label in labels],
    )
    summary = json.dumps({"out": str(out), "n": len(found), "model": model})
    print_result(out, summary if as_json else f"{len(found)} images in {out}")
