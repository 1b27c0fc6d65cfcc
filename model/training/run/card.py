"""The card of a trained model, README.md in its directory: data, recipe, processor, time, test
bits/dim, samples."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

from scanline.model.base.atomic import write_file
from scanline.model.base.config import ModelConfig
from scanline.model.base.machine import facts
from scanline.model.datasets.source import ImageSet
from scanline.model.evaluation.metrics import OF_EACH, tested_rows
from scanline.model.formats.model_card import CARD, metadata
from scanline.model.formats.model_dir import CLASS_HEAD, weight_bytes
from scanline.model.training.config import TrainingConfig
from scanline.model.training.run.curve import Row
from scanline.model.training.run.record import Run
from scanline.model.training.run.rounding import words

CLASS_SHEET = "classes.png"
HEAD = "|---|---|"  # of the table
NAMED = 20  # classes; there may be a thousand
STALE = re.compile(rf"\| [\d,]+{OF_EACH}")


def write_card(
    directory: Path,
    weights: int,
    model: ModelConfig,
    training: TrainingConfig,
    run: Run,
    images: ImageSet,
    evaluation: dict[str, Any],
    last: Row,
    positions: int,
    device: str,
) -> None:
    """Write README.md. evaluation: what evaluation.json holds; last: the last row of the run's
    curve; positions: how many of an image an update computed."""
    # The table's rows, in the order in which they are read: how good, of what, at what cost.
    name = directory.resolve().name
    kind = "grey" if model.channels == 1 else "colour"
    rows = {
        **_measured(evaluation),
        "data": _data(images, run, model),
        "recipe": _recipe(training, run, last.update),
        "time": _time(last.seconds, device),
        "weights": f"{weights:,} parameters, float16, {weight_bytes(directory) / 1e6:.1f} MB; state"
        f" {model.state_bytes_per_image:,} bytes an image",
        "input": _input(model),
        "output": model.predicts.replace("_", " "),
    }
    # Rows only of what this run had.
    head = directory / CLASS_HEAD
    if head.exists():
        rows["weights"] += f"; class head float32, {head.stat().st_size / 1e3:,.0f} kB"
    if run.classes:
        rows["classes"] = _classes(model, training)
    if positions < model.steps:
        rows["positions"] = (
            f"{positions} of {model.steps} per image and update; the background is sampled and"
            " reweighted"
        )
    if run.rounding is not None:
        rows["products"] = f"float32: {words(run.rounding)}"
    if run.start:
        added = f", with layers added up to {run.layers}" if run.layers else ""
        rows["first weights"] = f"those of `{Path(run.start).name}`{added}"
    # The card is published: it has names of folders and no paths, quoted as a shell needs them.
    table = "\n".join(f"| {key} | {value} |" for key, value in rows.items())
    at = shlex.quote(name)
    heads = f"{model.heads} heads" if model.heads > 1 else "one head"
    network = f"{model.layers} layers x {heads} x {model.value_width}, width {model.model_width}"
    of_classes = f"\n![Samples of each class]({CLASS_SHEET})\n" if run.classes else ""
    of_data = f"\n## Data\n\n{images.about}\n" if images.about else ""
    text = f"""{metadata(name, evaluation, published=run.published is not None)}
# {name}

A linear transformer of {network}, feed-forward {model.feed_forward},
that paints {model.width} x {model.height} {kind} pictures; written by `scanline train`.

| | |
{HEAD}
{table}

![{training.sample_images} samples, seed {training.seed}, temperature 1](samples.png)

Samples: `scanline sample --model {at} -n {training.sample_images} --seed {training.seed}`; a server:
`scanline serve --model {at}`.
{of_classes}
![Loss](loss.png)
{of_data}"""
    write_file(directory / CARD, text)


def renew_card(directory: Path, evaluation: dict[str, Any]) -> None:
    """Write an evaluation of one's own pictures into the card of a model, over the rows of an
    earlier one."""
    path = directory / CARD
    lines = path.read_text().splitlines() if path.exists() else []
    if HEAD not in lines:
        return
    lines = [line for line in lines if not STALE.match(line)]
    at = lines.index(HEAD) + 1
    for key, value in _measured(evaluation).items():
        old = [number for number, line in enumerate(lines) if line.startswith(f"| {key} |")]
        at = old[0] if old else at
        lines[at : at + len(old)] = [f"| {key} | {value} |"]
        at += 1
    text = "\n".join(lines) + "\n"
    dataset = json.dumps(evaluation["dataset"], ensure_ascii=False)
    bits = f"{evaluation['bits_per_dim']:.3f}"
    for key, value in (("value", bits), ("name", dataset)):  # the first of each, in the metadata
        escaped = value.replace("\\", r"\\")
        text = re.sub(rf"^( {{6}}{key}: ).*$", rf"\g<1>{escaped}", text, count=1, flags=re.M)
    write_file(path, text)


def _measured(evaluation: dict[str, Any]) -> dict[str, str]:
    """Return the rows of what was measured on test images, with classes where these have them, and
    on samples."""
    error = evaluation["standard_error"]
    spread = "" if error is None else f" +- {error:.4f}"
    tested = f"**{evaluation['bits_per_dim']:.3f}{spread}** on {evaluation['images']:,} test images"
    return {"test bits/dim": tested, **tested_rows(evaluation)}


def _classes(model: ModelConfig, training: TrainingConfig) -> str:
    names = model.class_names
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    listed = ", ".join(f"`{name}`" for name in names[:NAMED])
    return (
        f"{len(names)}: {listed}{more}; {training.unlabelled:.0%} of the labels dropped in training"
    )


def _data(images: ImageSet, run: Run, model: ModelConfig) -> str:
    shape = f"{model.width} x {model.height} {'grey' if model.channels == 1 else 'RGB'}"
    if run.published:
        return f"{run.published} as published, {run.train:,} training and {run.test:,} test images"
    resized = f"cropped and resized to {shape}" if run.size else shape
    name = images.name or f"`{Path(run.data).name}`"
    pictures = f"{name}: {run.train + run.test:,} pictures, {resized}"
    by = "the set's own parts" if images.has_parts else "the SHA-256 of their bytes"
    split = f"split by {by} into {run.train:,} to train on and {run.test:,} to test on"
    left_out = f"{run.duplicates:,} duplicates left out, {run.refused:,} files refused"
    return f"{pictures}; {split}; {left_out}"


def _recipe(training: TrainingConfig, run: Run, updates: int) -> str:
    passes = updates * training.batch * training.branches / run.train
    mirrored = ", mirrored" if training.flip else ""
    length = f"{updates:,} updates of {training.batch} images ({passes:.2f} passes{mirrored})"
    if training.branches > 1:
        length += f" by each of {training.branches} branches"
        length += f", averaged every {training.branch_updates:,} updates"
    falls = "falling to zero" if training.schedule == "trapezoid" else "constant"
    if training.has_plateau:
        falls += f" in the last {training.decay:.0%} of it"
    optimiser = "AdamW"
    if training.optimiser == "muon":
        optimiser = "Muon for the matrices of the layers, AdamW for the rest"
    preset = f"preset {run.preset}, " if run.preset else ""
    rate = f"{optimiser}, rate {training.learning_rate:g} {falls}"
    return f"{preset}{length}; {rate}; seed {training.seed}"


def _time(seconds: float, device: str) -> str:
    measured = facts()
    machine = measured["machine"]
    where = f"{machine['threads']} threads of {machine['cpu']} ({machine['isa']})"
    if device == "cuda":
        where = machine["gpu"]
    return f"{seconds / 60:.1f} minutes on {where}; {measured['date'][:10]}"


def _input(model: ModelConfig) -> str:
    if model.step == "byte":
        return "previous byte, row, column and channel; a step is a byte"
    waves = ""
    if model.waves:
        waves = f", of the nearest also sines and cosines at {model.waves} frequencies"
    blocks = f"{model.blocks} residual block{'' if model.blocks == 1 else 's'}"
    window = f"{model.window_rows} rows above, {model.window_columns} columns to either side"
    mixed = ", painted neighbours mixed in every block and layer" if model.causal_conv else ""
    return f"window of painted pixels ({window}{waves}), {blocks}{mixed}; a step is a pixel"
