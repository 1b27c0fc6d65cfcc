"""Drawings as other people make them: turned, slanted, in other sizes, with other pens and greys;
and strangers, pictures that show none of what a model knows."""

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

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
DRAWINGS_A_STRANGER = 5
# Of a scribble: its points, the largest standard deviation of its turns in radians, its width in
# fine pixels.
POINTS = (8, 40)
TURNS = 2.5
WIDTHS = (5, 13)
MARGIN = 0.15  # of its size


def redrawn(
    images: np.ndarray, config: ModelConfig, cleaning: Cleaning, random: np.random.Generator
) -> np.ndarray:
    """Return grey drawings [n, N] uint8 as somebody else might have made them, and as they are then
    read."""
    drawings = cleaning.drawings(images, config)
    sizes = SIZES if cleaning.frame else (1.0, 1.0)
    others = [disturbed(drawing, sizes, random) for drawing in drawings]
    pictures = cleaning.on_its_ground(np.stack(others))
    return read(pictures, config, cleaning, "auto").images


def disturbed(
    drawing: np.ndarray,  # [H, W] uint8, on 0
    sizes: tuple[float, float],
    random: np.random.Generator,
) -> np.ndarray:
    """Return a drawing as somebody else might have made it, of a size between these."""
    height, width = drawing.shape
    turn = np.radians(random.normal(0, TURN))
    cosine = np.cos(turn)
    sine = np.sin(turn)
    turned = np.array([[cosine, -sine], [sine, cosine]])
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


def strangers(
    images: np.ndarray, config: ModelConfig, cleaning: Cleaning, random: np.random.Generator
) -> np.ndarray:
    """Return pictures [n // 5, N] uint8 that show no drawing as the grey images [n, N] uint8 have
    it, as they are read: two of these side by side, halves of two, scribbles, textures."""
    drawings = cleaning.drawings(images, config)
    count = len(drawings) // DRAWINGS_A_STRANGER
    if not count:
        return images[:0]
    sizes = SIZES if cleaning.frame else (1.0, 1.0)
    kinds = (_side_by_side, _halves, _scribble, _texture)
    others = []
    for first, second in zip(drawings[:count], drawings[count:], strict=False):
        kind = kinds[random.integers(len(kinds))]
        picture = kind(first, second, random)
        others.append(disturbed(picture, sizes, random))
    pictures = cleaning.on_its_ground(np.stack(others))
    return read(pictures, config, cleaning, "auto").images


def _side_by_side(first: np.ndarray, second: np.ndarray, random: np.random.Generator) -> np.ndarray:
    height, width = first.shape
    both = Image.fromarray(np.concatenate((first, second), axis=1))
    return np.asarray(both.resize((width, height)))


def _halves(first: np.ndarray, second: np.ndarray, random: np.random.Generator) -> np.ndarray:
    height, width = first.shape
    joined = first.copy()
    if random.random() < 0.5:
        joined[:, width // 2 :] = second[:, width // 2 :]
    else:
        joined[height // 2 :] = second[height // 2 :]
    return joined


def _scribble(first: np.ndarray, second: np.ndarray, random: np.random.Generator) -> np.ndarray:
    height, width = first.shape
    points = random.integers(*POINTS)
    deviation = random.uniform(0, TURNS)
    turns = random.normal(0, deviation, points)
    direction = turns.cumsum()
    # Steps of one length, one after the other, moved into the picture and scaled to its size.
    steps = np.stack((np.cos(direction), np.sin(direction)), axis=1)
    path = steps.cumsum(axis=0)
    path -= path.min(axis=0)
    path = MARGIN + (1 - 2 * MARGIN) * path / path.max()
    fine = Image.new("L", (FINE * width, FINE * height))
    line = (path * fine.size).reshape(-1).tolist()
    pen = int(random.integers(*WIDTHS))
    drawer = ImageDraw.Draw(fine)
    drawer.line(line, fill=255, width=pen, joint="curve")
    coarse = fine.resize((width, height), Image.Resampling.BOX)
    return np.asarray(coarse)


def _texture(first: np.ndarray, second: np.ndarray, random: np.random.Generator) -> np.ndarray:
    height, width = first.shape
    side = random.integers(3, min(height, width) + 1)
    values = random.integers(0, 256, (side, side)).astype(np.uint8)
    texture = Image.fromarray(values)
    return np.asarray(texture.resize((width, height)))
