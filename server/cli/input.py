"""Pictures that a user names on the command line, as bytes of a model."""

from pathlib import Path

import numpy as np
from PIL import Image

from scanline.model.config import ModelConfig
from scanline.model.pictures import open_picture, pixels


def read_picture(path: Path, config: ModelConfig) -> tuple[Image.Image, np.ndarray]:
    """The picture and its bytes [N] uint8."""
    picture = open_picture(path.read_bytes(), config, str(path))
    return picture, pixels(picture, config)
