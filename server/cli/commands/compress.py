"""scanline compress: pictures to a file of lossless codes."""

import json
from pathlib import Path
from typing import Annotated

import typer

from scanline.model import zoo
from scanline.model.base.device import AUTO
from scanline.model.base.precision import DEFAULT
from scanline.model.formats.code_file import MAX_A_CODE, SUFFIX, checked_images_a_code
from scanline.server.cli.base import options
from scanline.server.cli.base.progress import model_bar
from scanline.server.cli.base.sampling import (
    as_json_fields,
    exit_if_broken,
    print_left_out,
    print_result,
)

COMPARED = 500  # pictures that are also written as PNG and WebP


def compress(
    pictures: Annotated[
        list[Path],
        typer.Argument(
            help="Pictures of the model's image size (-: standard input), a folder of them, a .npy array, an IDX file,"
            " or a folder with the files of MNIST or CIFAR-10."
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help=f"Output: a {SUFFIX} file; -: standard output.")
    ] = Path(f"images{SUFFIX}"),
    class_name: options.Class = None,
    classes: Annotated[
        bool,
        typer.Option(
            "--classes",
            help="Each picture has the class of its label in MNIST or CIFAR-10, or of its subfolder's name.",
        ),
    ] = False,
    split: Annotated[
        str, typer.Option(help="Images of MNIST or CIFAR-10: test or train.")
    ] = "test",
    images_a_code: Annotated[
        int | None,
        typer.Option(
            help=f"Images that follow each other in a code, 1 to {MAX_A_CODE:,}; 1 is for access to each by itself.",
            show_default="as many as make about 8 KB",
        ),
    ] = None,
    model: options.Model = zoo.DEFAULT,
    device: options.Device = "auto",
    precision: options.Precision = DEFAULT,
    backend: options.Backend = AUTO,
    as_json: options.Json = False,
) -> None:
    """Compress pictures without loss, to the bits of their likelihood. An image is coded under
    its class where that is shorter."""
    zoo.find(model)  # before torch is imported: raises for a wrong name
    checked_images_a_code(images_a_code)
    if classes and class_name is not None:
        raise ValueError("--class and --classes exclude each other; give one of them")
    from scanline.model.base.named_files import check_no_picture, check_output, write_output
    from scanline.model.datasets.compress_input import SPLITS, input_files, open_compress_input
    from scanline.model.images import file_sizes
    from scanline.model.inference import load

    if split not in SPLITS:
        raise ValueError(f"--split must be {' or '.join(SPLITS)}, not {split!r}")
    check_output(out, input_files(pictures))
    check_no_picture(out)
    loaded = load(model, device=device, precision=precision, backend=backend)
    config = loaded.config
    data_set = open_compress_input(pictures, config, split, classes)
    print_left_out(data_set.refused)
    with model_bar("encoding") as progress:
        names = data_set.classes or class_name
        data = loaded.compress(
            data_set.images, class_name=names, images_a_code=images_a_code, progress=progress
        )
    write_output(out, data)
    others = file_sizes.bits_per_dim(data_set.images.reshape(-1, *config.image_shape), COMPARED)
    dims = 8 / data_set.images.size
    summary = {
        "out": str(out),
        "n": len(data_set.images),
        "bytes": len(data),
        "bits_per_dim": dims * len(data),
    }
    if as_json:
        line = json.dumps(
            summary
            | as_json_fields(data_set.refused)
            | {f"{name.lower()}_bits_per_dim": value for name, value in others.items()}
        )
    else:
        beside = ", ".join(f"{name} {value:.3f}" for name, value in others.items())
        if len(data_set.images) > COMPARED:
            beside += f" for {COMPARED} of them"
        line = f"{len(data_set.images)} images in {out}, {len(data):,} bytes, {dims * len(data):.3f} bits/dim; {beside}"
    print_result(out, line)
    exit_if_broken(data_set.refused)
