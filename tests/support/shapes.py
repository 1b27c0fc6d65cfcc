"""Saved models that know classes: 7 x 5 grey pixels, whose bits differ between classes by several percent. The server
of SHAPES that several test modules share has the slots of one image of 16 particles and of some others. GUIDED can be
guided.
"""

from pathlib import Path

from scanline.model.config import ModelConfig
from scanline.model.formats.checkpoint import save_model
from tests.support import small_models

CLASSES = (("circle", "disc"), ("square", "box"), ("star",))
NAMES = ("shapes", "dall-e-2", "dall-e-3", "gpt-image-1", "gpt-image-2")  # by which the server's clients know it
SLOTS, WAITING, MAX_IMAGES = 24, 176, 230
ROOM = SLOTS + WAITING  # images, and particles, in progress at once
SHAPES = small_models.config(height=7, width=5, layers=1, classes=CLASSES)
GUIDED = small_models.config(height=7, width=5, layers=1, classes=CLASSES, predicts="categorical")


def save(directory: Path, config: ModelConfig = SHAPES) -> Path:
    """Save a model; return its directory."""
    save_model(small_models.model(config), directory)
    return directory
