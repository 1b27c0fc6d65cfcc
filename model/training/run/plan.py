"""The plan of a run: the model and the recipe of a preset, of a model that it continues, of its own
earlier part, or sized to the pictures."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from scanline.model import zoo
from scanline.model.base.config import ModelConfig
from scanline.model.datasets.source import ImageSet
from scanline.model.formats.model_dir import load_config
from scanline.model.training.config import TrainingConfig
from scanline.model.training.presets import PRESETS
from scanline.model.training.run.first_weights import first_weights, with_classes
from scanline.model.training.run.plateau import is_plateau, plateau_recipe
from scanline.model.training.run.sizing import UNBOUNDED, measured, network, recipe
from scanline.model.training.run.state import load_state, saved_configs

DEFAULT_MINUTES = 20.0


@dataclass(frozen=True)
class TrainingPlan:
    """A model, its recipe and its first weights; None are random."""

    model: ModelConfig
    training: TrainingConfig
    start: dict[str, torch.Tensor] | None = None


def plan(
    images: ImageSet,
    changes: dict[str, Any],
    *,
    preset: str | None = None,
    start: str | None = None,
    layers: int | None = None,
    predicts: str | None = None,
    neighbours: bool | None = None,
    width: int | None = None,
    resumed: Path | None = None,
    device: str = "cpu",
) -> TrainingPlan:
    """Return what to train on the images.

    changes: fields of the recipe that differ from the source's own. start: a shipped model or a
    model directory to continue from; if it is what a run kept of its plateau, with that run's
    recipe. layers: how many layers it gets, if not its own number; of a new model, as width, see
    `network`. neighbours: whether a new model mixes them, by default as the preset's does, or
    `network`'s. resumed: the directory of a run to resume, whose model and recipe are used where no
    preset is named. device: on which a run of minutes is measured. The model learns the classes of
    the images, where they have labels. ValueError in one sentence for a model that does not exist
    or is of another size than the images, or a run that cannot be resumed so.
    """
    updates = changes.get("updates")
    minutes = changes.get("minutes")
    classes = images.labels.classes if images.labels else ()
    weights = None
    on_plateau = False
    # A preset has a model and a recipe; --minutes then replaces its number of updates.
    if preset is not None:
        model = PRESETS[preset].model
        training = PRESETS[preset].training
        mixes = model.causal_conv if neighbours is None else neighbours
        model = dataclasses.replace(with_classes(model, classes), causal_conv=mixes)
        if minutes is not None and updates is None:
            changes = changes | {"updates": UNBOUNDED}
        _check_size(f"the preset {preset}", model, images)
    elif resumed is not None:
        model, training = saved_configs(resumed)
    else:
        if updates is None and minutes is None:
            minutes = DEFAULT_MINUTES
        training = recipe(images, updates, minutes, continued=start is not None)
        # The recipe decides how long a network is trained, and so its size; the model to continue
        # from has its own.
        if start is not None:
            directory = zoo.find(start)
            _check_size(start, load_config(directory), images)
            on_plateau = is_plateau(directory)
            if on_plateau:
                training = plateau_recipe(directory, training)
            seed = changes.get("seed", training.seed)
            model, weights = first_weights(directory, classes, layers, seed)
        else:
            changed = dataclasses.replace(training, **changes)
            sized = network(images, changed, predicts, neighbours, layers, width, device)
            model = with_classes(sized, classes)
    training = dataclasses.replace(training, **changes)
    if training.classes_only and (not classes or (weights is None and resumed is None)):
        raise ValueError("--classes-only needs --classes, and trained weights (--from)")
    if resumed is None or preset is not None:
        model = dataclasses.replace(model, mirrored=training.flip)
    if resumed is None and not on_plateau:
        training = measured(model, images, training, changes, device)
    if resumed is not None:
        # raises where it cannot be resumed
        load_state(resumed, model, training, torch.device("cpu"))
    return TrainingPlan(model, training, weights)


def shipped_start(images: ImageSet) -> str | None:
    """Return the shipped model that paints images of this size, to start from; None where there is
    none."""
    for name in zoo.names():
        if _has_size(load_config(zoo.find(name)), images):
            return name
    return None


def _check_size(what: str, model: ModelConfig, images: ImageSet) -> None:
    if not _has_size(model, images):
        kind = "grey" if model.channels == 1 else "RGB"
        raise ValueError(f"{what} paints {model.size} {kind} and the pictures are {images.size}")


def _has_size(model: ModelConfig, images: ImageSet) -> bool:
    size = (images.height, images.width, images.channels)
    return (model.height, model.width, model.channels) == size
