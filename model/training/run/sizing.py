"""A network and a recipe for any pictures, sized to them and to the length of the run, where there
is no preset; on a GPU also the batch and the plateau of any run of minutes.

The rule: a network that sees fewer than STEPS_PER_WEIGHT positions for each of its weights is too
large for its run. An update costs 6 operations for each weight and position, so a machine of R
operations a second that trains for T seconds affords W weights with 6 W x STEPS_PER_WEIGHT W = R T.
"""

import time
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from math import sqrt
from typing import Any

import numpy as np
import torch

from scanline.model.base.config import ModelConfig
from scanline.model.datasets.source import ImageSet
from scanline.model.network.transformer import Transformer
from scanline.model.training.config import TrainingConfig
from scanline.model.training.data.batches import batch_at
from scanline.model.training.optimise.cuda_graph_updater import WARM_UP, new_updater
from scanline.model.training.optimise.precision import product_dtype
from scanline.model.training.optimise.processes import Group
from scanline.model.training.presets import BACKGROUND, PHOTOGRAPHS, STROKES

STEPS_PER_WEIGHT = 20
BYTES_PER_WEIGHT = 4  # of the training images, at least: a larger network overfits a small set
TRAINING_SHARE = 0.85  # of the time of a run; the rest goes into checkpoints
HEAD = 32
LAYERS = 2
BLOCKS = 2
MEASURED_WIDTH = 128
MEASURED_SECONDS = 3.0
LARGEST_WIDTH = 512
# positions: 8 images of 28 x 28
STEPS_PER_UPDATE = 6_272
LARGEST_BATCH = 64
TESTED_BYTES = 150_000  # of test images at a checkpoint
UNBOUNDED = 10**9  # updates, of a run that ends with its minutes
CONTINUED_SHARE = 0.4  # of the learning rate, from trained weights
MEASURED_ON = ("cuda",)  # devices whose rate of training is measured to choose a batch
# images an update; measuring time of each
BATCHES = (8, 16, 32, 64, 128, 256)
BATCH_SECONDS = 0.3
ENOUGH = 0.8  # of the highest rate: a larger batch makes fewer updates of the same images
# runs of so many updates keep a plateau for the next run
PLATEAU_UPDATES = 2_000
PLATEAU_DECAY = 0.4


def recipe(
    data: ImageSet, updates: int | None, minutes: float | None, continued: bool = False
) -> TrainingConfig:
    """Return the recipe of a run of so many updates or minutes on the images; continued: from
    trained weights."""
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
    device: str = "cpu",
) -> ModelConfig:
    """Return the network of so many layers, by default LAYERS, and of this width, by default the
    largest that the run can train and the images can fill.

    predicts: by default pixel logistics for colour, and for grey the values themselves, as drawings
    have few. neighbours: whether it mixes them, by default where it predicts pixel logistics: in
    drawings it costs the sampling of the background. The size is measured on this device for a run
    of minutes; for one of updates it is a function of the arguments.
    """
    predicts = predicts or ("categorical" if data.channels == 1 else "pixel_logistics")
    if neighbours is None:
        neighbours = predicts == "pixel_logistics"
    of_width = partial(
        _of_width, data=data, predicts=predicts, neighbours=neighbours, layers=layers or LAYERS
    )
    if width is not None:
        if width < HEAD or width % HEAD:
            raise ValueError(
                f"--width must be a multiple of {HEAD}, the width of a head, not {width}"
            )
        return of_width(width)
    if config.minutes is None:
        trained = config.updates * config.batch * config.branches  # images
        afforded = trained * data.height * data.width / STEPS_PER_WEIGHT
    else:
        probe = of_width(MEASURED_WIDTH)
        images_per_second = _images_per_second(probe, data, config, device, MEASURED_SECONDS)
        rate = images_per_second * operations_per_image(count_weights(probe), probe.steps)
        afforded = sqrt(rate * 60 * config.minutes * TRAINING_SHARE / (6 * STEPS_PER_WEIGHT))
    images, size = data.train.shape
    most = min(afforded, images * size / BYTES_PER_WEIGHT)
    chosen = of_width(HEAD)
    for wider in range(2 * HEAD, LARGEST_WIDTH + 1, HEAD):
        model = of_width(wider)
        if count_weights(model) > most:
            break
        chosen = model
    return chosen


def count_weights(config: ModelConfig) -> int:
    """Return the number of weights of a network, without making it."""
    with torch.device("meta"):
        return Transformer(config).parameter_count


def _of_width(
    width: int, data: ImageSet, predicts: str, neighbours: bool, layers: int
) -> ModelConfig:
    fields: dict[str, Any] = dict(PHOTOGRAPHS if predicts == "pixel_logistics" else STROKES)
    fields["predicts"] = predicts
    fields["causal_conv"] = neighbours
    fields["window_rows"] = min(fields["window_rows"], data.height)
    fields["window_columns"] = min(fields["window_columns"], data.width)
    if "wave_rows" in fields:
        fields["wave_rows"] = min(fields["wave_rows"], fields["window_rows"])
        fields["wave_columns"] = min(fields["wave_columns"], fields["window_columns"])
        fields["outside"] = _background(data)
    fields |= {"step": "pixel", "blocks": BLOCKS, "block_width": 2 * width}
    return ModelConfig(
        data.height,
        data.width,
        data.channels,
        layers,
        width // HEAD,
        HEAD,
        HEAD,
        4 * width,
        **fields,
    )


def _background(data: ImageSet) -> int:
    """Return the most frequent byte of the pictures' borders: the background of a drawing."""
    images = data.train[:1000].reshape(-1, data.height, data.width, data.channels)
    borders = (images[:, 0], images[:, -1], images[:, :, 0])
    values = np.concatenate([border.reshape(-1) for border in borders])
    return int(np.bincount(values).argmax())


def measured(
    model: ModelConfig, data: ImageSet, config: TrainingConfig, fixed: Iterable[str], device: str
) -> TrainingConfig:
    """Return the recipe; on a GPU, in a run of minutes, with the batch and the plateau that there
    is time for, unless they are `fixed`: the smallest batch that each GPU trains on at nearly its
    highest rate, and a plateau of the learning rate where there are many updates."""
    if device not in MEASURED_ON or config.minutes is None:
        return config
    gpus = torch.cuda.device_count() if device == "cuda" else 1
    rates: dict[int, float] = {}
    for batch in (config.batch // gpus,) if "batch" in fixed else BATCHES:
        tried = replace(config, batch=batch)
        try:
            rates[batch] = _images_per_second(model, data, tried, device, BATCH_SECONDS)
        except torch.OutOfMemoryError:
            if not rates:
                raise
            break
    enough = ENOUGH * max(rates.values())
    batch = next(batch for batch, rate in rates.items() if rate >= enough)
    updates = 60 * config.minutes * TRAINING_SHARE * rates[batch] / batch
    if "batch" not in fixed:
        config = replace(config, batch=batch * gpus)
    is_free = config.decay == 1 and "decay" not in fixed and "schedule" not in fixed
    if updates >= PLATEAU_UPDATES and is_free:
        config = replace(config, decay=PLATEAU_DECAY)
    return config


def operations_per_image(weights: int, positions: int) -> int:
    """Return the operations by which an image of so many positions is trained on: 6 for each weight
    and position."""
    return 6 * weights * positions


def _images_per_second(
    model_config: ModelConfig, data: ImageSet, config: TrainingConfig, device: str, seconds: float
) -> float:
    """Measure how many images a second this device trains on, not compiled."""
    model = Transformer(model_config).to(device)
    updater = new_updater(model, config, Group(), product_dtype(model.device), compiled=False)
    batch = batch_at(data.train, 0, config, model_config).to(device)
    # the first one allocates; on a GPU one is recorded
    updates = -1 if device == "cpu" else -WARM_UP - 1
    began = 0.0
    spent = 0.0
    while spent < seconds:
        if not updates:
            began = time.monotonic()
        updater.update(batch, 0, config.learning_rate)
        if device == "cuda":
            torch.cuda.synchronize()
        updates += 1
        spent = time.monotonic() - began if updates > 0 else 0.0
    return config.batch * updates / spent
