"""What a run keeps of its plateau for the next run: the weights before its learning rate fell, as a
model directory.

A run that has cooled down goes on worse than one that never did: the rate would have to
rise again. So the next run starts from these weights, at the full rate, with another order
of the pictures, and cools down itself.
"""

import json
import logging
from dataclasses import asdict, replace
from pathlib import Path

from scanline.model.base.atomic import make_folder, write_file
from scanline.model.base.named_files import read_file
from scanline.model.formats.checkpoint import save_model
from scanline.model.network.transformer import Transformer
from scanline.model.training.config import TrainingConfig, former_options

FOLDER = "plateau"
RECIPE = "recipe.json"

log = logging.getLogger("scanline.training")


def save_plateau(model: Transformer, config: TrainingConfig, directory: Path) -> None:
    """Write the weights and the recipe of the run in `directory`, atomically."""
    make_folder(directory / FOLDER)
    save_model(model, directory / FOLDER)
    text = json.dumps(asdict(config), indent=1) + "\n"
    write_file(directory / FOLDER / RECIPE, text)


def is_plateau(directory: Path) -> bool:
    """Return whether a model directory is what a run kept of its plateau."""
    return (directory / RECIPE).is_file()


def plateau_recipe(directory: Path, recipe: TrainingConfig) -> TrainingConfig:
    """Return the recipe of the run whose plateau this is, with the length of `recipe` and another
    seed. ValueError where the file is none."""
    path = directory / RECIPE
    try:
        fields = json.loads(read_file(path))
        saved = TrainingConfig.from_saved(fields)
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"{path} is not a recipe of this version of the program") from None
    former = former_options(fields)
    if former:
        log.warning("%s has %s, which this version lacks: training goes on without", path, former)
    return replace(saved, updates=recipe.updates, minutes=recipe.minutes, seed=saved.seed + 1)
