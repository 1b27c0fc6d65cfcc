"""scanline train: from pictures to a model directory."""

import errno
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from scanline.model.extras import MissingExtraError
from scanline.model.training import TrainingConfig
from scanline.model.training.presets import PRESETS
from scanline.server.cli.options import Device, Fetch
from scanline.server.cli.progress import add_stage, progress_bar
from scanline.server.cli.training_report import interrupts, print_images, print_network, training_progress

if TYPE_CHECKING:
    from scanline.model.datasets.source import ImageSet

LITERALS = {name: kind for name, kind in get_type_hints(TrainingConfig).items() if get_origin(kind) is Literal}
CHOICES = {name: ", ".join(get_args(kind)) for name, kind in LITERALS.items()}
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # a disk, a user's quota, a process's limit
MANY_FILES = 500  # which take a second or so to read


def train(
    out: Annotated[Path, typer.Option(help="The model directory to write.")],
    data: Annotated[
        Path | None,
        typer.Option(
            help="A folder of pictures, searched recursively; a directory with the published files of MNIST or"
            " CIFAR-10; or a .npy array, uint8, n x H x W or n x H x W x 3. Required unless --resume is given."
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(metavar="WxH", help="Crop each picture to its centre and resize it; a number means a square."),
    ] = None,
    grey: Annotated[bool, typer.Option("--grey", help="Convert the pictures to grey.")] = False,
    mirror: Annotated[bool, typer.Option("--mirror", help="Mirror half of the training images, at random.")] = False,
    redrawn: Annotated[
        float | None,
        typer.Option(
            help="For MNIST: share of the digits that are drawn again, for each update anew, until the rate is a fifth"
            " of its peak, so that a long run does not learn their greys by heart.",
            show_default="0",
        ),
    ] = None,
    classes: Annotated[
        bool,
        typer.Option(
            "--classes",
            help="Learn the classes of the pictures: those of MNIST or CIFAR-10, or the subfolders of a folder.",
        ),
    ] = False,
    unlabelled: Annotated[
        float | None,
        typer.Option(
            help="Share of the pictures whose class is left out, drawn anew for each update, so that the model also"
            " paints without a class.",
            show_default="0.5",
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(help="Length of the run, which the model is sized to.", show_default="20 without a preset"),
    ] = None,
    updates: Annotated[int | None, typer.Option(min=1, help="Length of the run in updates instead.")] = None,
    preset: Annotated[
        str | None, typer.Option(help=f"{', '.join(PRESETS)}.", show_default="a model sized to pictures and minutes")
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", help="Continue from the weights of a shipped model or a model directory.")
    ] = None,
    layers: Annotated[
        int | None,
        typer.Option(min=1, help="With --from: add layers on top, up to this number.", show_default="the model's"),
    ] = None,
    predicts: Annotated[
        str | None,
        typer.Option(
            help="categorical, logistics or pixel_logistics.",
            show_default="categorical for grey, pixel_logistics for colour",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in the model directory; its options are remembered.")
    ] = False,
    batch: Annotated[int | None, typer.Option(min=1, help="Images per update.")] = None,
    optimiser: Annotated[str | None, typer.Option(help=f"{CHOICES['optimiser']}.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Peak learning rate.")] = None,
    schedule: Annotated[
        str | None, typer.Option(help=f"{CHOICES['schedule']}; a run of minutes falls with the clock.")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="float32 or bfloat16.", show_default="bfloat16 where the hardware has it")
    ] = None,
    compiled: Annotated[
        bool, typer.Option("--compile/--no-compile", help="Use torch.compile; on a CPU it needs a C++ compiler.")
    ] = True,
    processes: Annotated[int, typer.Option(min=1, help="Processes that share every batch, on a CPU.")] = 1,
    branches: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Processes that each train weights of their own on a CPU, which are averaged from time to time.",
            show_default="1",
        ),
    ] = None,
    branch_updates: Annotated[
        int | None,
        typer.Option(min=1, help="Updates of each branch from one average to the next.", show_default="1000"),
    ] = None,
    checkpoint_every: Annotated[
        int | None, typer.Option(min=1, help="Updates between checkpoints; a run of minutes saves ten times.")
    ] = None,
    training_seed: Annotated[int | None, typer.Option("--seed", min=0, help="Random seed of the run.")] = None,
    fetch: Fetch = False,
    device: Device = "auto",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object for each row of the loss curve.")
    ] = False,
) -> None:
    """Train a model on pictures. Options that are not given keep the preset's values, or those of the resumed run."""
    from scanline.model import datasets
    from scanline.model.datasets.source import parse_size
    from scanline.model.device import resolve_device
    from scanline.model.resources import limit_torch_threads
    from scanline.model.training.loop import train as run_updates
    from scanline.model.training.run.curve import Curve
    from scanline.model.training.run.finish import finish
    from scanline.model.training.run.plan import plan
    from scanline.model.training.run.record import check_same_images, describe, load_run
    from scanline.model.training.run.sizing import UNBOUNDED, count_weights
    from scanline.model.training.run.state import saved_configs

    _check_options(
        out, resume, **{"preset": preset, "from": start, "predicts": predicts, "layers": layers, "fetch": fetch}
    )
    saved = load_run(out) if resume else None
    if resume and saved is None:
        saved_configs(out)  # raises where there is no run
    if data is None and saved is None:
        raise ValueError("give --data: a folder of pictures, a directory with published files or a .npy array")
    if resume and classes and not (saved and saved.classes):
        raise ValueError(f"the run in {out} learns no classes, and --resume continues it as it is; leave out --classes")
    classes = classes or (saved is not None and saved.classes)
    if unlabelled is not None and not classes:
        raise ValueError("--unlabelled needs --classes, whose labels it leaves out")
    limit_torch_threads()
    on = resolve_device(device)
    given: dict[str, Any] = {
        "updates": updates,
        "minutes": minutes,
        "batch": batch,
        "optimiser": optimiser,
        "learning_rate": learning_rate,
        "schedule": schedule,
        "flip": mirror or None,
        "redrawn": redrawn,
        "unlabelled": unlabelled,
        "branches": branches,
        "branch_updates": branch_updates,
        "checkpoint_every": checkpoint_every,
        "seed": training_seed,
    }
    changes = {key: value for key, value in given.items() if value is not None}

    # The pictures: those of the command, or of the run that is resumed.
    wanted = parse_size(size) if size else saved.size if saved else None
    grey = grey or (saved is not None and saved.grey)
    path = data or Path(saved.data if saved else "")
    if fetch and preset:
        datasets.fetch(PRESETS[preset].dataset, path)
    images = _open(path, wanted, grey, classes)
    if out.resolve().is_relative_to(path.resolve()) and not images.published:
        raise ValueError(f"{out} is inside {path}, whose pictures would then include the sheets of the run")
    if saved:
        check_same_images(saved, images)
    run = saved or describe(images, path, wanted, grey, preset, start, layers)

    # The model and the recipe.
    resumed = out if resume else None
    chosen = plan(images, changes, preset=preset, start=start, layers=layers, predicts=predicts, resumed=resumed)
    if not as_json:
        print_images(path, images, to_stderr=False)
        print_network(count_weights(chosen.model), chosen.model, chosen.training)
    elif images.refused:
        print_images(path, images, to_stderr=True)

    again = f"scanline train --resume --out {shlex.quote(str(out))}"
    with _full_disk(out, again):
        out.mkdir(parents=True, exist_ok=True)
        run.save(out)
        with interrupts() as signals, training_progress(chosen.training, out.resolve().name, as_json) as report:
            run_updates(
                chosen.model,
                chosen.training,
                images.train,
                images.test,
                out,
                labels=images.labels.train if images.labels else None,
                start=chosen.start,
                resume=resume,
                device=on,
                precision=precision,
                compiled=compiled,
                workers=processes,
                report=report,
                interrupted=lambda: bool(signals),
            )
        last = Curve(out, until=UNBOUNDED).rows[-1]
        if signals:
            typer.echo(f"interrupted after update {last.update:,}; continue with: {again}", err=True)
            raise typer.Exit(128 + signals[0])
        with progress_bar() as bar:
            found = finish(out, chosen.training, run, images, last, on, partial(add_stage, bar))
    if as_json:
        return
    error = "" if found["standard_error"] is None else f" +- {found['standard_error']:.3f}"
    print(
        f"{out}: {found['bits_per_dim']:.3f}{error} bits/dim on {found['images']:,} test images, after"
        f" {last.update:,} updates in {last.seconds / 60:.1f} minutes"
    )
    shown = shlex.quote(str(out))
    print(f"paint with it: scanline sample --model {shown} -n 64 --out sheet.png")
    print(f"serve it:      scanline serve --model {shown}")


def _check_options(out: Path, resume: bool, **given: object) -> None:
    """ValueError in one sentence for options that exclude each other, or a model directory that is in use."""
    from importlib.util import find_spec

    from scanline.model.formats.model_dir import CONFIG
    from scanline.model.training.run.state import FILE as STATE

    preset = given["preset"]
    if preset is not None and preset not in PRESETS:
        raise ValueError(f"there is no preset {preset!r}; there are {', '.join(PRESETS)}")
    sources = [f"--{name}" for name in ("preset", "from", "predicts") if given[name] is not None]
    if len(sources) > 1:
        raise ValueError(f"{sources[0]} and {sources[1]} exclude each other: each decides which model is trained")
    if resume and (others := [source for source in sources if source != "--preset"]):
        raise ValueError(f"{others[0]} is for a new run; --resume continues the model in {out}")
    if given["layers"] is not None and given["from"] is None:
        raise ValueError("--layers needs --from, the model that it adds layers to")
    if given["fetch"] and preset is None:
        raise ValueError("--fetch needs --preset, whose data set it downloads")
    if find_spec("matplotlib") is None:
        raise MissingExtraError("the loss curve", "train")
    if not resume and (out / STATE).exists():
        raise ValueError(f"{out} already holds a training run; continue it with --resume, or name another directory")
    if not resume and (out / CONFIG).exists():
        raise ValueError(f"{out} already holds a model; name another directory, or continue from it with --from")


def _open(path: Path, size: tuple[int, int] | None, grey: bool, classes: bool) -> "ImageSet":
    """Read the pictures, with a bar where there are many files."""
    from scanline.model.datasets.source import open_data

    with progress_bar() as bar:
        task = bar.add_task(f"reading {path}", total=None, note="files", visible=False)
        return open_data(
            path,
            size,
            grey,
            lambda done, total: bar.update(task, completed=done, total=total, visible=total >= MANY_FILES),
            classes=classes,
        )


@contextmanager
def _full_disk(out: Path, again: str) -> Iterator[None]:
    """Turn the error of a full disk into one sentence: is the last checkpoint intact, and how does the run continue."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        from scanline.model.training.run.state import FILE as STATE

        kept = f"the last checkpoint is intact, so make room and continue with: {again}"
        kept = kept if (out / STATE).exists() else "there is no checkpoint yet"
        raise ValueError(f"{error.filename}: {error.strerror}; {kept}") from None
