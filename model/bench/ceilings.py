"""What this machine could do, by torch's own operations: float32 matrix products, and a copy that no cache holds.

A fraction of the ceiling says how far a program is from this machine, where a bare images/s only says how big it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from scanline.model.bench.machine import durations
from scanline.model.config import ModelConfig

COPY_BYTES = 2**30  # read, and as many written; more than any last-level cache
SQUARE = {"cpu": 2048, "cuda": 8192}  # side of the large product
ROWS = (64, 256, 1024)  # where the best rate is looked for, beside the batch sizes of the run


@dataclass(frozen=True)
class Ceilings:
    """Rates per second."""

    flop_per_byte: int  # of the matrix products behind one byte of one image
    products_seconds: dict[int, float]  # rows -> of the products of one step, alone
    square_flop: float
    copy_bytes: float  # read + written

    @property
    def matrix_flop(self) -> float:
        """The best rate that the model's own products reached, at any number of rows."""
        return max(rows * self.flop_per_byte / seconds for rows, seconds in self.products_seconds.items())

    @property
    def best_rows(self) -> int:
        return max(self.products_seconds, key=lambda rows: rows / self.products_seconds[rows])


def ceilings(config: ModelConfig, batches: Sequence[int], device: str, seconds: float = 0.5) -> Ceilings:
    """All of them, `seconds` for each measurement."""
    shapes = product_shapes(config)
    products = {rows: products_seconds(shapes, rows, device, seconds) for rows in sorted({*batches, *ROWS})}
    side = SQUARE[device]
    square = 2 * side**3 / products_seconds([(side, side)], side, device, seconds)
    return Ceilings(flop_per_byte(config), products, square, copy_rate(device, seconds))


def product_shapes(config: ModelConfig) -> list[tuple[int, int]]:
    """(inner, outer) of every matrix product of one step."""
    width, keys, hidden = config.model_width, config.heads * config.key_width, config.feed_forward
    layer = [(width, 2 * keys + width), (width, width), (width, hidden), (hidden, width)]
    return [*(layer * config.layers), (width, config.head_width)]


def flop_per_byte(config: ModelConfig) -> int:
    return 2 * sum(inner * outer for inner, outer in product_shapes(config))


def products_seconds(shapes: list[tuple[int, int]], rows: int, device: str = "cpu", seconds: float = 0.5) -> float:
    """Least seconds of x [rows, inner] @ W [inner, outer] once for every (inner, outer) of `shapes`, each
    with weights of its own, so that they come from where a network's weights come from."""
    pairs = [
        (torch.randn(rows, inner, device=device), torch.randn(outer, inner, device=device)) for inner, outer in shapes
    ]
    with torch.inference_mode():
        return min(durations(lambda: [F.linear(x, weight) for x, weight in pairs], seconds, device))


def copy_rate(device: str = "cpu", seconds: float = 0.5) -> float:
    """Bytes per second, read + written, of a copy of COPY_BYTES."""
    source = torch.ones(COPY_BYTES // 4, device=device)
    target = torch.zeros_like(source)
    return 2 * COPY_BYTES / min(durations(lambda: target.copy_(source), seconds, device))
