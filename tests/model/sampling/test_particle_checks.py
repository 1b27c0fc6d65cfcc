"""The positions at which an image's particles are resampled, and the bytes in which they agree."""

import numpy as np
import pytest

from scanline.model.sampling.particles import agreed, checks
from tests.support import small_models

GREY = small_models.config(height=4, width=4)


def mask(rows: str) -> np.ndarray:
    """[N] bool of rows of 4 pixels: # is known."""
    return np.array([pixel == "#" for pixel in rows.replace(" ", "")])


@pytest.mark.parametrize(
    ("rows", "expected"),
    {
        "#### #### #### ####": [],
        ".... .... .... ....": [],
        "#### ##.. .... ....": [],  # nothing known follows: all particles weigh the same
        "#### #..# .... ....": [8],
        "#.## #.## #### .###": [5, 12],
        ".### .### .### .###": [4, 8, 12],
        "#### .... #### ####": [],  # the last known bytes are weighed at the end
        ".... .#.. .... ....": [8],
        ".##. ...# ##.. #...": [4, 10, 13],
    }.items(),
)
def test_checks_are_before_the_first_hidden_byte_of_a_row_where_a_byte_was_weighed_since(
    rows: str, expected: list[int]
) -> None:
    assert checks(mask(rows), GREY) == expected


def test_checks_of_a_pixel_model_are_between_steps() -> None:
    config = small_models.config(height=4, width=4, **small_models.VARIANTS["pixels"])
    known = np.repeat(mask("#.## #.## #### .###"), 3)
    known[3] = True  # the red of the first hidden pixel
    assert checks(known, config) == [15, 36]
    known[15] = True
    assert checks(known, config) == [15, 36]


def test_particles_agree_up_to_the_first_byte_in_which_any_differs() -> None:
    images = np.zeros((3, 8), np.uint8)
    assert agreed(images, 6) == 6
    images[2, 6] = 1
    assert (agreed(images, 6), agreed(images, 8)) == (6, 6)
    images[1, 2] = 9
    assert agreed(images, 8) == 2
    assert agreed(images[:1], 8) == 8
