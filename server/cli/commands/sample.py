"""scanline sample: images from nothing, into a picture, an array or a folder."""

from pathlib import Path
from typing import Annotated

import typer

from scanline.model import zoo
from scanline.model.precision import DEFAULT
from scanline.server.cli.options import Device, Json, Model, Precision, Seed, Temperature


def sample(
    n: Annotated[int, typer.Option("-n", min=1, help="Images to paint.")] = 64,
    out: Annotated[Path, typer.Option(help="A .png or .webp sheet, a .npy array, or a folder/.")] = Path("samples.png"),
    seed: Seed = None,
    temperature: Temperature = 1.0,
    model: Model = zoo.DEFAULT,
    device: Device = "auto",
    precision: Precision = DEFAULT,
    cluster: Annotated[
        str | None,
        typer.Option(help="A Ray cluster whose service paints, as auto or host:port; a folder is resumed."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Paints images and writes them where a person would want a picture."""
    from scanline.model.device import resolve_device
    from scanline.model.formats.checkpoint import load_model
    from scanline.server.cli.output import check_out, write_images
    from scanline.server.cli.sampling import check_temperature, drawn_seed, paint_with_bar, tell

    check_temperature(temperature)
    check_out(out)
    if cluster is not None:
        from scanline.server.cli.commands.sample_cluster import sample_on_cluster

        if device != "auto" or precision != DEFAULT:
            raise ValueError("--device and --precision are the service's own to choose, not --cluster's")
        sample_on_cluster(cluster, model, n, out, seed, temperature, as_json)
        return
    seed = drawn_seed(seed)
    network = load_model(zoo.find(model), resolve_device(device))
    painted = paint_with_bar(network, n, seed, temperature, precision=precision)
    write_images(painted.images.reshape(-1, *network.config.image_shape), out)
    tell(painted, "images", out, seed, as_json)
