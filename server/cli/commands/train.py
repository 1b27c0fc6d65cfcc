"""scanline train: from pictures to a model directory."""

import errno
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from scanline.model.likelihood.classification import check_classes
from scanline.model.training.presets import PRESETS
from scanline.server.cli.base.progress import add_stage, progress_bar
from scanline.server.cli.base.sampling import print_left_out
from scanline.server.cli.base.training_options import TrainingOptions
from scanline.server.cli.base.training_report import (
    interrupts,
    print_images,
    print_network,
    training_progress,
)

if TYPE_CHECKING:
    from scanline.model.datasets.source import ImageSet
    from scanline.model.training.run.plan import TrainingPlan
    from scanline.model.training.run.record import Run

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # a disk, a user's quota, a process's limit
MANY_FILES = 500  # which take a second or so to read
# for recognisable strokes; True: from the weights of another model
ENOUGH_UPDATES = {True: 10, False: 300}


def train(**given: Any) -> None:
    """Train a model on pictures. Options that are not given keep the preset's
    values, or those of the resumed run.
    """
    from scanline.model.base.device import peak_flops, resolve_device
    from scanline.model.base.resources import limit_torch_threads
    from scanline.model.formats.model_dir import check_out
    from scanline.model.training.data.positions import PositionSampler
    from scanline.model.training.run.curve import Curve
    from scanline.model.training.run.finish import finish
    from scanline.model.training.run.label_check import check_labels
    from scanline.model.training.run.loop import train as run_updates
    from scanline.model.training.run.plan import plan, shipped_start
    from scanline.model.training.run.plateau import FOLDER
    from scanline.model.training.run.sizing import UNBOUNDED, count_weights, operations_per_image

    options = TrainingOptions(**given)
    options.check()
    if options.class_head:
        _fit_class_head(options)
        return
    check_out(options.out)
    out = options.out
    saved = _saved_run(options)
    limit_torch_threads()
    device = resolve_device(options.device)
    images, run = _open_images(options, saved)  # first, as a run without a preset is sized to them
    chosen = plan(
        images,
        options.changes,
        preset=options.preset,
        start=run.start,
        layers=options.layers,
        predicts=options.predicts,
        neighbours=options.neighbours,
        width=options.width,
        resumed=out if options.resume else None,
        device=device,
    )
    weights = count_weights(chosen.model)
    checked = None if saved else check_labels(run.start or shipped_start(images), images, device)
    if images.refused or not options.as_json:
        print_images(options.data or Path(run.data), images, to_stderr=options.as_json)
    if not options.as_json:
        if checked is not None:
            print(checked)
        print_network(weights, chosen.model, chosen.training, run.start)
    precision, run = _precision(options, chosen, run, images, device)
    # In images a second, as the report's rate is; an update
    # computes only some positions of each image.
    if (peak := peak_flops(device)) is not None:
        positions = PositionSampler(images.train, chosen.training, chosen.model).count
        peak /= operations_per_image(weights, positions)

    command = f"scanline train --resume --out {shlex.quote(str(out))}"
    checkpoint_mb = options.checkpoint_mb or run.checkpoint_mb
    with _in_one_sentence(out, command):
        out.mkdir(parents=True, exist_ok=True)
        # before the first update, since --resume reads from it which pictures they are
        run.save(out)
        name = out.resolve().name
        with (
            interrupts() as signals,
            training_progress(chosen.training, name, options.as_json, peak) as report,
        ):
            run_updates(
                chosen.model,
                chosen.training,
                images.train,
                images.test,
                out,
                labels=images.labels.train if images.labels else None,
                start=chosen.start,
                resume=options.resume,
                device=device,
                precision=precision,
                compiled=options.compiles(chosen.training, device)
                and (options.compile_cache or True),
                limit=None if checkpoint_mb is None else 1e6 * checkpoint_mb,
                workers=options.processes,
                report=report,
                interrupted=lambda: bool(signals),
            )
        last = Curve(out, until=UNBOUNDED).rows[-1]
        if signals:
            typer.echo(
                f"interrupted after update {last.update:,}; continue with: {command}", err=True
            )
            raise typer.Exit(128 + signals[0])
        with progress_bar() as bar:
            evaluation = finish(
                out, chosen.training, run, images, last, device, partial(add_stage, bar)
            )
    if not options.as_json:
        _print_result(out, evaluation, last.update, last.seconds)
        if chosen.training.has_plateau:
            print(
                f"train it further: scanline train --from {shlex.quote(str(out / FOLDER))} --data ... --out ..."
            )
        if last.update < ENOUGH_UPDATES[run.start is not None]:
            print(
                f"{last.update:,} updates are too few to learn what the pictures show; give more --minutes"
            )


train.__signature__ = signature(TrainingOptions)  # type: ignore[attr-defined]  # typer makes the options from it


def _precision(
    options: TrainingOptions,
    chosen: "TrainingPlan",
    run: "Run",
    images: "ImageSet",
    device: str,
) -> tuple[str | None, "Run"]:
    """Return the precision of products, None for the machine's, and the record of the run. Where no
    precision was asked for and gradients in bfloat16 are mostly rounding, it is float32."""
    import torch

    from scanline.model.formats.checkpoint import load_model
    from scanline.model.training.optimise.precision import product_dtype
    from scanline.model.training.run.rounding import hidden_gradients, words

    if options.precision is None and run.rounding is not None:
        return "float32", run
    weights = chosen.start
    if options.resume:
        weights = load_model(options.out).state_dict()
    is_rounded = product_dtype(torch.device(device), options.precision) == torch.bfloat16
    if weights is None or not is_rounded:
        return options.precision, run
    off = hidden_gradients(chosen, weights, images, device)
    if off is None:
        return options.precision, run
    hidden = words(off)
    # A run that resumes goes on as it began.
    if options.precision is None and not options.resume:
        typer.echo(f"training with float32: {hidden}", err=True)
        return "float32", replace(run, rounding=off)
    typer.echo(f"{hidden}: a run may learn nothing more; give --precision float32", err=True)
    return options.precision, run


def _fit_class_head(options: TrainingOptions) -> None:
    """Fit the class head of the model in --out to the pictures of --data, and write it there."""
    from scanline.model.base.device import resolve_device
    from scanline.model.datasets.source import open_for
    from scanline.model.formats.checkpoint import load_model, save_class_head
    from scanline.model.training.run.class_head import fit_class_head

    assert options.data is not None
    model = load_model(options.out, resolve_device(options.device))
    check_classes(model.config)
    with progress_bar() as bar:
        images = open_for(model.config, options.data, _count_files(bar, options.data))
        assert images.labels is not None
        print_left_out(images.refused)
        progress = add_stage(bar, "fitting the class head", len(images.train), "images")
        head, right = fit_class_head(model, images.train, images.labels.train, progress=progress)
    save_class_head(head, options.out)
    print(
        f"{options.out}: the class head reads {right:.1%} of the training images that it had not seen"
    )
    print(
        f"measure it: scanline evaluate {shlex.quote(str(options.out))} --data {shlex.quote(str(options.data))} --save"
    )


def _saved_run(options: TrainingOptions) -> "Run | None":
    """Return the record of the run to resume, None of a new one;
    ValueError for options that do not fit it.
    """
    from scanline.model.training.run.record import load_run
    from scanline.model.training.run.state import saved_configs

    saved = load_run(options.out) if options.resume else None
    if options.resume and saved is None:
        saved_configs(options.out)  # raises where there is no run
    if options.data is None and saved is None:
        raise ValueError(
            "give --data: a folder of pictures, a directory with published files or a .npy array"
        )
    learns_classes = saved is not None and saved.classes
    if options.resume and options.classes and not learns_classes:
        raise ValueError(
            f"the run in {options.out} learns no classes, and --resume continues it as it is; leave out --classes"
        )
    if options.unlabelled is not None and not (options.classes or learns_classes):
        raise ValueError("--unlabelled needs --classes, whose labels it leaves out")
    return saved


def _open_images(options: TrainingOptions, saved: "Run | None") -> tuple["ImageSet", "Run"]:
    """Return the pictures of the options, or of the run that is
    resumed, and the record of the run.
    """
    from scanline.model import datasets
    from scanline.model.datasets.source import open_data, parse_size
    from scanline.model.training.run.record import check_same_images, describe

    size = saved.size if saved else None
    if options.size:
        size = parse_size(options.size)
    grey = options.grey or (saved is not None and saved.grey)
    classes = options.classes or (saved is not None and saved.classes)
    path = options.data or Path(saved.data if saved else "")
    if options.fetch and options.preset:
        datasets.fetch(PRESETS[options.preset].dataset, path)
    with progress_bar() as bar:
        images = open_data(path, size, grey, _count_files(bar, path), classes=classes)
    if options.out.resolve().is_relative_to(path.resolve()) and images.is_folder:
        raise ValueError(
            f"{options.out} is inside {path}, whose pictures would then include the sheets of the run"
        )
    if saved:
        check_same_images(saved, images)
        return images, saved
    start = options.start_for(images)
    run = describe(
        images, path, size, grey, options.preset, start, options.layers, options.checkpoint_mb
    )
    return images, run


def _count_files(bar: Any, path: Path) -> Callable[[int, int], None]:
    """Return a callback that gets the files read and their total; its
    task is shown where they are many.
    """
    task = bar.add_task(f"reading {path}", total=None, note="files", visible=False)
    return lambda done, total: bar.update(
        task, completed=done, total=total, visible=total >= MANY_FILES
    )


@contextmanager
def _in_one_sentence(out: Path, command: str) -> Iterator[None]:
    """Turn the end of a run by a full disk, full memory or another process of it into one sentence:
    is the last checkpoint intact, and how does the run continue."""
    from scanline.model.training.optimise.processes import WorkerError, memory_reason
    from scanline.model.training.run.state import FILE as STATE

    then = "continue with"
    try:
        yield
    except (OSError, MemoryError, RuntimeError) as error:
        if reason := memory_reason(error):
            then = "a new run may need less with a smaller --batch or fewer --processes; or continue with"
        elif isinstance(error, WorkerError):
            reason = str(error)
        elif isinstance(error, OSError) and error.errno in FULL:
            reason = f"{error.filename}: {error.strerror}"
            then = "so make room and continue with"
        else:
            raise
        kept = f"the last checkpoint is intact, {then}: {command}"
        kept = kept if (out / STATE).exists() else "there is no checkpoint yet"
        raise ValueError(f"{reason}; {kept}") from None


def _print_result(out: Path, evaluation: dict[str, Any], updates: int, seconds: float) -> None:
    error = (
        "" if evaluation["standard_error"] is None else f" +- {evaluation['standard_error']:.3f}"
    )
    print(
        f"{out}: {evaluation['bits_per_dim']:.3f}{error} bits/dim on {evaluation['images']:,} test images, after"
        f" {updates:,} updates in {seconds / 60:.1f} minutes"
    )
    model = shlex.quote(str(out))
    print(f"paint with it: scanline sample --model {model} -n 64 --out sheet.png")
    print(f"serve it:      scanline serve --model {model}")
