"""Letters of a word are set in one hand."""

import numpy as np
from PIL import Image, ImageDraw

from scanline.model.images.one_hand import one_hand


def stroke(width, lean):
    picture = Image.new("L", (112, 112))
    ImageDraw.Draw(picture).line((56 + lean, 16, 56 - lean, 96), 255, width)
    return np.asarray(picture.reduce(4))


def test_letters_get_the_width_and_the_slant_of_the_middle_one():
    letters = np.stack([stroke(7, 0), stroke(12, 0), stroke(17, 10)])
    rows = one_hand(letters)[:, [6, 20]]
    ink = rows.sum(axis=2)
    assert np.ptp(ink) < 64
    assert np.ptp(rows @ np.arange(28) / ink) < 0.6
