"""scanline bench: the speed of this machine, compared with its ceilings."""

import json
from typing import Annotated

import typer

from scanline.model import zoo
from scanline.model.base.device import AUTO
from scanline.model.base.precision import DEFAULT
from scanline.server.cli.base.options import MODEL_HELP, Backend, Device, Json, Precision


def bench(
    model: Annotated[str | None, typer.Option(help=MODEL_HELP, show_default=zoo.DEFAULT)] = None,
    random: Annotated[
        str | None,
        typer.Option(help="Measure random weights in the shape of this training preset instead."),
    ] = None,
    batches: Annotated[
        str, typer.Option(help="Numbers of images in flight, separated by commas.")
    ] = "1,4,16,64,256",
    seconds: Annotated[float, typer.Option(help="Seconds of each measurement.")] = 3.0,
    skip: Annotated[
        str,
        typer.Option(help="Parts to skip, separated by commas: latency, bulk, reading."),
    ] = "",
    device: Device = "auto",
    precision: Precision = DEFAULT,
    backend: Backend = AUTO,
    as_json: Json = False,
) -> None:
    """Check a model's results, then measure latency, throughput and known bytes."""
    from rich.console import Console

    from scanline.model.base.device import resolve_backend
    from scanline.model.bench.result import print_report
    from scanline.model.bench.run import BenchOptions, load
    from scanline.model.bench.run import bench as run
    from scanline.server.cli.base.progress import progress_bar

    on, backends = resolve_backend(device, backend)
    options = BenchOptions(
        _numbers(batches), seconds, tuple(skip.split(",")) if skip else (), precision, backends
    )
    network = load(model, random, on)
    name = f"{random}, random weights" if random else model or zoo.DEFAULT
    with progress_bar() as bar:
        task = bar.add_task("measuring", total=options.stages, note="")
        stages = iter(range(options.stages))
        result = run(
            network,
            name,
            options,
            lambda stage: bar.update(task, completed=next(stages), note=stage),
        )
    if as_json:
        print(json.dumps(result))
    else:
        print_report(result, Console())


def _numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a comma-separated list, without repetitions."""
    try:
        return tuple(dict.fromkeys(int(word) for word in text.split(",")))
    except ValueError:
        raise ValueError(
            f"--batches: give whole numbers separated by commas, not {text!r}"
        ) from None
