"""A network and a recipe for any pictures, sized to them and to the length of the run, where there is no preset.

The rule: a network that sees fewer than STEPS_PER_WEIGHT positions for each of its weights is too large for its run. An
update costs 6 operations for each weight and position, so a machine of R operations a second that trains for T seconds
affords W weights with 6 W x STEPS_PER_WEIGHT W = R T.
"""

import time
from dataclasses import replace
from functools import partial
from math import sqrt
from typing import Any

import numpy as np
import torch

from scanline.model.config import ModelConfig
from scanline.model.datasets.source import ImageSet
from scanline.model.network.transformer import Transformer
from scanline.model.training.config import CONTRASTED, TrainingConfig
from scanline.model.training.data.batches import batch_at
from scanline.model.training.optimise.precision import product_dtype
from scanline.model.training.optimise.processes import Group
from scanline.model.training.optimise.update import Updater
from scanline.model.training.presets import BACKGROUND, PHOTOGRAPHS, STROKES

STEPS_PER_WEIGHT = 20
BYTES_PER_WEIGHT = 4  # of the training images, at least: a larger network overfits a small set
TRAINING_SHARE = 0.85  # of the time of a run; the rest goes into checkpoints
HEAD, LAYERS, BLOCKS = 32, 2, 2
MEASURED_WIDTH, MEASURED_SECONDS = 128, 3.0
LARGEST_WIDTH = 512
STEPS_PER_UPDATE, LARGEST_BATCH = 6_272, 64  # positions: 8 images of 28 x 28
TESTED_BYTES = 150_000  # of test images at a checkpoint
UNBOUNDED = 10**9  # updates, of a run that ends with its minutes
CONTINUED_SHARE = 0.4  # of the learning rate, from trained weights


def recipe(data: ImageSet, updates: int | None, minutes: float | None, continued: bool = False) -> TrainingConfig:
    """Return the recipe of a run of so many updates or minutes on the images; continued: from trained weights."""
    steps = data.height * data.width
    limit = UNBOUNDED if updates is None else updates
    return TrainingConfig(
        updates=limit,
        minutes=minutes,
        batch=min(max(STEPS_PER_UPDATE // steps, 1), LARGEST_BATCH),
        learning_rate=TrainingConfig.learning_rate * (CONTINUED_SHARE if continued else 1.0),
        warm_up=min(TrainingConfig.warm_up, limit // 20),
        background=BACKGROUND,  # photographs have none, and all of their positions are computed
        checkpoint_every=max(50, limit // 8),
        evaluate_images=min(max(TESTED_BYTES // (steps * data.channels), 8), 200),
        sample_images=64 if steps <= 1_024 else 16,
    )


def network(
    data: ImageSet,
    config: TrainingConfig,
    predicts: str | None = None,
    neighbours: bool | None = None,
    layers: int | None = None,
    width: int | None = None,
) -> ModelConfig:
    """Return the network of so many layers, by default LAYERS, and of this width, by default the largest that the run
    can train and the images can fill.

    predicts: by default pixel logistics for colour, and for grey the values themselves, as drawings have few.
    neighbours: whether it mixes them, by default where it predicts pixel logistics: in drawings it costs the sampling
    of the background. The size is measured on this machine for a run of minutes; for one of updates it is a function of
    the arguments.
    """
    predicts = predicts or ("categorical" if data.channels == 1 else "pixel_logistics")
    neighbours = predicts == "pixel_logistics" if neighbours is None else neighbours
    of_width = partial(_of_width, data=data, predicts=predicts, neighbours=neighbours, layers=layers or LAYERS)
    if width is not None:
        if width < HEAD or width % HEAD:
            raise ValueError(f"--width must be a multiple of {HEAD}, the width of a head, not {width}")
        return of_width(width)
    if config.minutes is None:
        afforded = config.updates * config.batch * config.branches * data.height * data.width / STEPS_PER_WEIGHT
    else:
        rate = _operations_per_second(of_width(MEASURED_WIDTH), data, config)
        afforded = sqrt(rate * 60 * config.minutes * TRAINING_SHARE / (6 * STEPS_PER_WEIGHT))
    images, length = data.train.shape
    most = min(afforded, images * length / BYTES_PER_WEIGHT)
    chosen = of_width(HEAD)
    for each in range(2 * HEAD, LARGEST_WIDTH + 1, HEAD):
        wider = of_width(each)
        if count_weights(wider) > most:
            break
        chosen = wider
    return chosen


def count_weights(config: ModelConfig) -> int:
    """Return the number of weights of a network, without making it."""
    with torch.device("meta"):
        return Transformer(config).parameter_count


def _of_width(width: int, data: ImageSet, predicts: str, neighbours: bool, layers: int) -> ModelConfig:
    fields: dict[str, Any] = dict(PHOTOGRAPHS if predicts == "pixel_logistics" else STROKES, predicts=predicts)
    fields["causal_conv"] = neighbours
    fields["window_rows"] = min(fields["window_rows"], data.height)
    fields["window_columns"] = min(fields["window_columns"], data.width)
    if "wave_rows" in fields:
        fields["wave_rows"] = min(fields["wave_rows"], fields["window_rows"])
        fields["wave_columns"] = min(fields["wave_columns"], fields["window_columns"])
        fields["outside"] = _background(data)
    fields |= {"step": "pixel", "blocks": BLOCKS, "block_width": 2 * width}
    return ModelConfig(data.height, data.width, data.channels, layers, width // HEAD, HEAD, HEAD, 4 * width, **fields)


def _background(data: ImageSet) -> int:
    """Return the most frequent byte of the pictures' borders: the background of a drawing."""
    images = data.train[:1000].reshape(-1, data.height, data.width, data.channels)
    border = np.concatenate([part.reshape(-1) for part in (images[:, 0], images[:, -1], images[:, :, 0])])
    return int(np.bincount(border).argmax())


def _operations_per_second(model_config: ModelConfig, data: ImageSet, config: TrainingConfig) -> float:
    """Measure how many operations a second this machine trains with, not compiled: 6 for each weight and position."""
    again = 1 / CONTRASTED if config.contrast else 0.0  # of the images are read twice, which need no measuring
    config = replace(config, contrast=0.0)
    updater = Updater(Transformer(model_config), config, Group(), product_dtype(torch.device("cpu")), compiled=False)
    batch = batch_at(data.train, 0, config, model_config)
    updates, began, spent = -1, 0.0, 0.0  # the first update also allocates
    while spent < MEASURED_SECONDS:
        if not updates:
            began = time.monotonic()
        updater.update(batch, 0, config.learning_rate)
        updates += 1
        spent = time.monotonic() - began if updates else 0.0
    return 6 * updater.model.parameter_count * config.batch * model_config.steps * updates / spent / (1 + again)
