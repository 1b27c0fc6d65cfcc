"""Saved models that know classes: 7 x 5 grey pixels, whose bits differ between classes by several
percent. The server of SHAPES that several test modules share has the slots of one image of 16
particles and of some others. GUIDED can be guided. An evaluated model has ranges of bits that no
image of it lies in, and cleans drawings on black.
"""

import numpy as np

from scanline.model.formats.checkpoint import save_class_head, save_model
from scanline.model.formats.model_dir import write_evaluation
from scanline.model.images.cleaning import Cleaning
from scanline.model.likelihood.typicality import LEVELS, Typicality
from tests.support import small_models

CLASSES = (("circle", "disc"), ("square", "box"), ("star",))
# by which the server's clients know it
NAMES = ("shapes", "dall-e-2", "dall-e-3", "gpt-image-1", "gpt-image-1-mini", "gpt-image-2")
SLOTS = 24
WAITING = 176
MAX_IMAGES = 230
ROOM = SLOTS + WAITING  # images, and particles, in progress at once
SHAPES = small_models.config(
    height=7,
    width=5,
    layers=1,
    classes=CLASSES,
    mirrored=True,
)
GUIDED = small_models.config(height=7, width=5, layers=1, classes=CLASSES, predicts="categorical")


def evaluate(directory, frame=None):
    """Add an evaluation to a saved model, whose drawings stand in a frame or in none; return its
    directory."""
    typical = Typicality(
        1000, 0.005, tuple(np.linspace(1, 2, len(LEVELS))), tuple(np.linspace(1, 2, len(LEVELS)))
    )
    cleaning = Cleaning(0, 254, frame)
    parts = {"typical": typical.to_dict(), "clean": cleaning.to_dict()}
    parts["classes"] = {"classification": {"temperature": 0.02}}
    write_evaluation(directory, {"precision": "exact", "bits_per_dim": 1.5, **parts})
    return directory


def save(directory, config=SHAPES, *, class_head=False):
    """Save a model, with a class head or without; return its directory."""
    save_model(small_models.model(config), directory)
    if class_head:
        save_class_head(small_models.class_head(config), directory)
    return directory
