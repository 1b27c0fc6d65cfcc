"""scanline bench: what this machine does with Scanline, beside what it could do and what others do with it."""

import json
from pathlib import Path
from typing import Annotated

import typer

from scanline.model import zoo
from scanline.model.precision import DEFAULT
from scanline.server.cli.options import Device, Json, Precision


def bench(
    model: Annotated[
        str | None, typer.Option(help="A shipped model's name or a model directory.", show_default=zoo.DEFAULT)
    ] = None,
    random: Annotated[str | None, typer.Option(help="Random weights instead: a preset's shape.")] = None,
    batches: Annotated[str, typer.Option(help="Images in flight at once.")] = "1,4,16,64,256",
    seconds: Annotated[float, typer.Option(help="Of measuring, for each number of each program.")] = 3.0,
    skip: Annotated[str, typer.Option(help="Of latency,bulk,reading,position,authors,softmax.")] = "",
    plot: Annotated[Path | None, typer.Option(help="A .png to draw as well.")] = None,
    device: Device = "auto",
    precision: Precision = DEFAULT,
    as_json: Json = False,
) -> None:
    """Checks that painting is right, then measures it: one image, many, reading, memory, and two baselines."""
    from rich.console import Console

    from scanline.model.bench.load import subject
    from scanline.model.bench.plan import Plan
    from scanline.model.bench.plot import check_plot, save_plot
    from scanline.model.bench.report import print_report
    from scanline.model.bench.run import bench as run
    from scanline.model.device import resolve_device
    from scanline.server.cli.progress import progress_bar

    plan = Plan(_whole_numbers(batches), seconds, tuple(skip.split(",")) if skip else (), precision)
    if plot is not None:
        check_plot(plot)
    network = subject(model, random, resolve_device(device))
    with progress_bar() as bar:
        task = bar.add_task("measuring", total=plan.stages, note="")
        started = iter(range(plan.stages))
        measured = run(network, plan, lambda stage: bar.update(task, completed=next(started), note=stage))
    name = f"{random}, random weights" if random else model or zoo.DEFAULT
    found = measured.to_dict(name, network.config, network.device.type, plan)
    if plot is not None:
        save_plot(found, plot)
    if as_json:
        print(json.dumps(found))
    else:
        print_report(found, Console())


def _whole_numbers(text: str) -> tuple[int, ...]:
    """Each once, in the order of the text."""
    try:
        return tuple(dict.fromkeys(int(word) for word in text.split(",")))
    except ValueError:
        raise ValueError(f"--batches: give whole numbers with commas between them, not {text!r}") from None
