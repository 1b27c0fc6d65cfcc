"""scanline train: train a preset on published images, into a model directory."""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from scanline.model.training import TrainingConfig
from scanline.model.training.presets import PRESETS
from scanline.server.cli.options import Data, Device, Fetch, Json
from scanline.server.cli.progress import progress_bar

if TYPE_CHECKING:
    from scanline.model.training.curve import Row

CHOICES = {
    name: ", ".join(map(str, get_args(kind))) for name, kind in get_type_hints(TrainingConfig).items()
}  # of Literals


def train(
    preset: Annotated[str, typer.Option(help=f"{', '.join(PRESETS)}.")],
    data: Data,
    out: Annotated[Path, typer.Option(help="The model directory to write.")],
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in the model directory.")] = False,
    updates: Annotated[int | None, typer.Option(min=1, help="Length of the run.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Images per update.")] = None,
    optimiser: Annotated[str | None, typer.Option(help=f"{CHOICES['optimiser']}.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Peak learning rate.")] = None,
    schedule: Annotated[str | None, typer.Option(help=f"{CHOICES['schedule']}.")] = None,
    precision: Annotated[
        str | None, typer.Option(help="float32 or bfloat16.", show_default="bfloat16 where the hardware has it")
    ] = None,
    compiled: Annotated[
        bool, typer.Option("--compile/--no-compile", help="Use torch.compile; on a CPU it needs a C++ compiler.")
    ] = True,
    processes: Annotated[int, typer.Option(min=1, help="Processes that share every batch, on a CPU.")] = 1,
    checkpoint_every: Annotated[int | None, typer.Option(min=1, help="Updates between checkpoints.")] = None,
    training_seed: Annotated[int | None, typer.Option("--seed", min=0, help="Random seed of the run.")] = None,
    fetch: Fetch = False,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Train a preset. Options that are not given keep the preset's values."""
    from importlib.util import find_spec

    from scanline.model import datasets
    from scanline.model.device import resolve_device
    from scanline.model.training.loop import train as run
    from scanline.model.training.state import FILE as STATE

    if preset not in PRESETS:
        raise ValueError(f"there is no preset {preset!r}; there are {', '.join(PRESETS)}")
    if find_spec("matplotlib") is None:
        raise ValueError("the loss curve needs matplotlib; install scanline[train]")
    if not resume and (out / STATE).exists():
        raise ValueError(f"{out} already holds a training run; continue it with --resume, or name another directory")
    chosen = PRESETS[preset]
    on = resolve_device(device)
    given: dict[str, Any] = {
        "updates": updates,
        "batch": batch,
        "optimiser": optimiser,
        "learning_rate": learning_rate,
        "schedule": schedule,
        "checkpoint_every": checkpoint_every,
        "seed": training_seed,
    }
    config = dataclasses.replace(chosen.training, **{key: value for key, value in given.items() if value is not None})
    if fetch:
        datasets.fetch(chosen.dataset, data)
    images = datasets.load(chosen.dataset, data, "train")
    test = datasets.load(chosen.dataset, data, "test")
    with progress_bar() as bar:
        task = bar.add_task(f"training {preset}", total=config.updates, note="")

        def report(row: "Row") -> None:
            tested = "" if row.test_bits_per_dim is None else f", test {row.test_bits_per_dim:.3f}"
            bar.update(task, completed=row.update, note=f"{row.bits_per_dim:.3f} bits/dim{tested}")
            if as_json:
                print(json.dumps(dataclasses.asdict(row)), flush=True)

        run(
            chosen.model,
            config,
            images,
            test,
            out,
            resume=resume,
            device=on,
            precision=precision,
            compiled=compiled,
            workers=processes,
            report=report,
        )
    if not as_json:
        print(f"{out}: trained for {config.updates} updates; measure it with `scanline evaluate {out} --data {data}`")
