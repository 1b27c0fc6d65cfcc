"""scanline train: from the published images to a model directory."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from scanline.server.cli.options import Data, Device, Json
from scanline.server.cli.progress import progress_bar


def train(
    preset: Annotated[str, typer.Option(help="mnist-small, mnist, cifar10-small or cifar10.")],
    data: Data,
    out: Annotated[Path, typer.Option(help="The model directory to write.")],
    resume: Annotated[bool, typer.Option("--resume", help="Go on from what is in the model directory.")] = False,
    updates: Annotated[int | None, typer.Option(min=1)] = None,
    batch: Annotated[int | None, typer.Option(min=1)] = None,
    optimiser: Annotated[str | None, typer.Option(help="adamw, muon or radam.")] = None,
    learning_rate: Annotated[float | None, typer.Option()] = None,
    schedule: Annotated[str | None, typer.Option(help="trapezoid, cosine or constant.")] = None,
    precision: Annotated[str | None, typer.Option(help="float32 or bfloat16; bfloat16 on a GPU.")] = None,
    compile_: Annotated[bool, typer.Option("--compile", help="torch.compile; needs a C++ compiler on a CPU.")] = False,
    checkpoint_every: Annotated[int | None, typer.Option(min=1, help="Updates.")] = None,
    training_seed: Annotated[int | None, typer.Option("--seed", min=0)] = None,
    fetch: Annotated[bool, typer.Option("--fetch", help="Fetch missing data files from their mirrors.")] = False,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Trains a preset. Options left out are the preset's."""
    from importlib.util import find_spec

    from scanline.model import datasets
    from scanline.model.device import resolve_device
    from scanline.model.training import train as run
    from scanline.model.training.presets import PRESETS
    from scanline.model.training.state import FILE as STATE

    if preset not in PRESETS:
        raise ValueError(f"there is no preset {preset!r}; there are {', '.join(PRESETS)}")
    if find_spec("matplotlib") is None:
        raise ValueError("training draws its loss curve with matplotlib; install scanline[train]")
    if not resume and (out / STATE).exists():
        raise ValueError(f"{out} holds a training run already; go on with --resume, or name another directory")
    chosen = PRESETS[preset]
    on = resolve_device(device)
    given: dict[str, Any] = {
        "updates": updates,
        "batch": batch,
        "optimiser": optimiser,
        "learning_rate": learning_rate,
        "schedule": schedule,
        "precision": precision or ("bfloat16" if on == "cuda" else None),
        "compile": compile_ or None,
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

        def report(row: object) -> None:
            values = dataclasses.asdict(row)  # type: ignore[call-overload]
            tested = values["test_bits_per_dim"]
            note = f"{values['bits_per_dim']:.3f} bits/dim" + (f", test {tested:.3f}" if tested else "")
            bar.update(task, completed=values["update"], note=note)
            if as_json:
                print(json.dumps(values), flush=True)

        run(chosen.model, config, images, test, out, resume=resume, device=on, report=report)
    if not as_json:
        print(f"{out}: a model after {config.updates} updates; `scanline evaluate {out} --data {data}` measures it")
