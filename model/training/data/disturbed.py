"""Drawings as other people make them: turned, slanted, in other sizes, with other pens and greys."""

import numpy as np
from PIL import Image, ImageFilter

from scanline.model.base.config import ModelConfig
from scanline.model.images.cleaning import Cleaning, read

FINE = 4  # pixels to a side of one, while a drawing is changed
TURN = 8.0  # degrees; this and the next two are standard deviations
SLANT = 0.1  # columns a row
STRETCH = 0.06  # of the logarithm of width over height
SIZES = (0.75, 1.15)  # of drawings that are read in one size
PENS = (-2, 6)  # fine pixels that strokes are thicker on either side, the last one exclusive
SOFT = (1, 4)  # fine pixels by which every second drawing is blurred
LEVELS = (0.3, 1.0)  # of the value of strokes
CONTRASTS = (1, 1, 1, 1.5, 4)
NOISY = 0.2  # of the drawings
NOISE = 6.0  # its largest standard deviation


def redrawn(
    images: np.ndarray, config: ModelConfig, cleaning: Cleaning, random: np.random.Generator
) -> np.ndarray:
    """Return grey drawings [n, N] uint8 as somebody else might have made them, and as they are then
    read."""
    drawings = cleaning.drawings(images, config)
    sizes = SIZES if cleaning.frame else (1.0, 1.0)
    others = np.stack([disturbed(drawing, sizes, random) for drawing in drawings])
    return read(cleaning.on_its_ground(others), config, cleaning, "auto").images


def disturbed(
    drawing: np.ndarray,  # [H, W] uint8, on 0
    sizes: tuple[float, float],
    random: np.random.Generator,
) -> np.ndarray:
    """Return a drawing as somebody else might have made it, of a size between these."""
    height, width = drawing.shape
    turn = np.radians(random.normal(0, TURN))
    turned = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    stretch = np.exp(random.normal(0, STRETCH))
    slant = random.normal(0, SLANT)
    slanted = np.array([[stretch, slant], [0, 1 / stretch]])
    # From the fine pixels to those of the drawing, about its middle.
    matrix = turned @ slanted / random.uniform(*sizes) / FINE
    middle = np.array([width, height]) / 2
    offset = middle - matrix @ (FINE * middle)
    coefficients = np.column_stack([matrix, offset]).reshape(-1).tolist()
    fine = Image.fromarray(drawing).transform(
        (FINE * width, FINE * height),
        Image.Transform.AFFINE,
        coefficients,
        Image.Resampling.BICUBIC,
    )
    pen = int(random.integers(*PENS))
    if pen:
        change = ImageFilter.MaxFilter if pen > 0 else ImageFilter.MinFilter
        side = 2 * abs(pen) + 1
        fine = fine.filter(change(side))
    if random.random() < 0.5:
        radius = random.uniform(*SOFT)
        fine = fine.filter(ImageFilter.GaussianBlur(radius))
    coarse = fine.resize((width, height), Image.Resampling.BOX)
    grey = np.asarray(coarse).astype(np.float64) - 127
    grey *= random.choice(CONTRASTS)
    grey = (grey + 127).clip(0, 255)
    grey *= random.uniform(*LEVELS)
    if random.random() < NOISY:
        deviation = random.uniform(0, NOISE)
        grey += deviation * random.standard_normal(grey.shape)
    return grey.round().clip(0, 255).astype(np.uint8)
