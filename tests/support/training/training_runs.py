"""A training run of seconds: a few striped images, a tiny model, a checkpoint every ten updates."""

import multiprocessing
import pickle
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from scanline.model.training import TrainingConfig
from scanline.model.training.optimise import processes
from scanline.model.training.run.curve import Curve
from scanline.model.training.run.loop import train
from tests.support import small_models

MODEL = small_models.config(layers=1)
RECIPE = {
    "updates": 25,
    "batch": 8,
    "warm_up": 5,
    "learning_rate": 1e-2,
    "average": 0.9,
    "flip": True,
    "checkpoint_every": 10,
    "evaluate_images": 6,
    "sample_images": 4,
}
LABELS = np.arange(40) % 3 + 1  # of the images, where a run learns classes
CLASSES = (("1", "one"), ("2", "two"), ("3", "three"))
IMAGES = np.tile(np.random.default_rng(0).choice([0, 100, 255], (40, 5)).astype(np.uint8), (1, 4))
FORK = multiprocessing.get_context("fork")


def fork(*, target, args, daemon):
    """Return a process that is a fork, which imports nothing, of what
    can be sent to a new interpreter.
    """
    pickle.dumps((target, args[1:]))  # all but the pipe
    return FORK.Process(target=target, args=args, daemon=daemon)


@contextmanager
def forked_workers():
    """Training processes are forks; a slow test of test_processes.py starts one as a user does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            processes, "get_context", lambda _: SimpleNamespace(Pipe=FORK.Pipe, Process=fork)
        )
        yield


class StoppedError(Exception):
    """Stands for anything that ends a run early."""


def stop():
    raise StoppedError


def draw_no_curve(patch):
    """Leave the picture of a run's curve empty; drawing it takes two
    thirds of the time of a short run.
    """
    patch.setattr(Curve, "_picture", lambda _: b"")


def run(
    directory,
    stop_at=None,
    resume=False,
    workers=1,
    classes=False,
    then=stop,
    picture=False,
    limit=None,
    **changes,
):
    """Train in `directory`, eagerly and in float32; when the update `stop_at` is reported, before
    its checkpoint, call `then`, by default to raise StoppedError. `picture`: draw the curve."""

    def report(row):
        if row.update == stop_at:
            then()

    config = TrainingConfig(**{**RECIPE, **changes})
    how = {"precision": "float32", "compiled": False, "workers": workers}
    how |= {
        "labels": LABELS[:32] if classes else None,
        "resume": resume,
        "report": report,
        "limit": limit,
    }
    model = replace(MODEL, classes=CLASSES) if classes else MODEL
    with pytest.MonkeyPatch.context() as patch:
        if not picture:
            draw_no_curve(patch)
        return train(model, config, IMAGES[:32], IMAGES[32:], directory, **how)


def state(directory):
    """Return all tensors and numbers of a run's state by their place, except seconds."""
    found = {}

    def walk(thing, place):
        if isinstance(thing, dict):
            for key, value in thing.items():
                walk(value, f"{place}.{key}")
        elif isinstance(thing, list | tuple):
            walk(dict(enumerate(thing)), place)
        else:
            found[place] = thing.tolist() if isinstance(thing, torch.Tensor) else thing

    walk(torch.load(directory / "training.pt", weights_only=True), "")
    return {place: value for place, value in found.items() if place != ".seconds"}


def curve(directory):
    """Return the rows of loss.csv without their seconds."""
    rows = [line.split(",") for line in (directory / "loss.csv").read_text().splitlines()]
    column = rows[0].index("seconds")
    return [",".join(row[:column] + row[column + 1 :]) for row in rows]
