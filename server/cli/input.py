"""Pictures that a user names on the command line, as bytes of a model; one sentence for what is wrong."""

from pathlib import Path

import numpy as np
from PIL import Image

from model.config import ModelConfig
from server.api.errors import ApiError
from server.api.pictures import known_by_picture, open_picture, pixels


def read_picture(path: Path, config: ModelConfig) -> tuple[Image.Image, np.ndarray]:
    """The picture and its bytes [N] uint8."""
    try:
        picture = open_picture(path.read_bytes(), config, str(path))
    except ApiError as error:
        raise ValueError(error.message) from None
    return picture, pixels(picture, config)


def read_mask(picture: Image.Image, name: str, config: ModelConfig) -> np.ndarray:
    """Mask [N] bool, True where a byte is known."""
    try:
        return known_by_picture(picture, config, name)
    except ApiError as error:
        raise ValueError(error.message) from None
