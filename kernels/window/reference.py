"""Window: painted pixels around the one to predict, as real numbers, in the order that the
network's input reads.

A byte b has the value v = b / 127.5 - 1. The inputs of a pixel are, each in raster order with
channels innermost:

1. the values of the window's pixels, `columns` to either side in the `rows` rows above and
   `columns` to the left; where the window is `centred`, minus the pixel's reference, the mean of
   its left and upper neighbour in the same channel (on the border, the one that exists), so that a
   network need not learn brightness;
2. where it is centred, the reference of each channel;
3. of each byte in the nearest `wave_rows` and `wave_columns`: sin(pi 2^k v) for k = 0 .. waves - 1,
   then the cosines. The grey of an anti-aliased edge follows exactly from the pixels around it;
   from their values alone, networks learn that slowly.

Pixels outside the image have the byte `outside`.
"""

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Window:
    """The geometry of a window in images of `height` x `width` pixels of `channels` bytes."""

    height: int
    width: int
    channels: int
    rows: int
    columns: int
    waves: int = 0
    wave_rows: int = 0
    wave_columns: int = 0
    outside: int = 0
    centred: bool = False

    @cached_property
    def pixels(self) -> tuple[tuple[int, int], ...]:
        """(rows up, columns right) of the pixels that are read, in raster order."""
        return _around(self.rows, self.columns)

    @cached_property
    def wave_pixels(self) -> tuple[tuple[int, int], ...]:
        """Those that are also read as waves, in raster order."""
        if not self.waves:
            return ()
        return _around(self.wave_rows, self.wave_columns)

    @cached_property
    def wave_table(self) -> Tensor:
        """The waves of each byte [256, 2 waves]; a property, because torch.compile traces into
        cached functions, but not into values."""
        return wave_table(self.waves)

    @cached_property
    def _wave_tables(self) -> dict[torch.device, Tensor]:
        """The same on each device that has asked for it."""
        return {}

    @property
    def linear_inputs(self) -> int:
        """Number of inputs that are linear in the bytes: values and references."""
        return (len(self.pixels) + self.centred) * self.channels

    @property
    def inputs(self) -> int:
        """Number of all inputs of a pixel."""
        wave_bytes = len(self.wave_pixels) * self.channels
        return self.linear_inputs + wave_bytes * 2 * self.waves

    def read(self, images: Tensor, pixel: Tensor) -> tuple[Tensor, Tensor]:
        """Return the inputs [B, n, inputs] float32 of pixels [B, n] int64, or [1, n] where they are
        the same for all images, of images [B, N] uint8, and their references [B, n, channels],
        which are zero unless centred. Bytes of a pixel and of those after it are not read."""
        pixel = pixel.expand(images.shape[0], -1)
        device = images.device
        around = _offsets(self.rows, self.columns, device)
        values = self._bytes(images, pixel, *around).float() / 127.5 - 1  # [B, n, pixels, channels]
        reference = self._reference(images, pixel)
        if self.centred:
            values = values - reference.unsqueeze(2)
            parts = [values.flatten(2), reference]
        else:
            parts = [values.flatten(2)]
        if self.waves:
            if device not in self._wave_tables:
                self._wave_tables[device] = self.wave_table.to(device)
            near = _offsets(self.wave_rows, self.wave_columns, device)
            near_bytes = self._bytes(images, pixel, *near)
            waves = self._wave_tables[device][near_bytes.long()]
            parts.append(waves.flatten(2))
        return torch.cat(parts, dim=-1), reference

    def _reference(self, images: Tensor, pixel: Tensor) -> Tensor:
        """Return the references [B, n, channels] of pixels [B, n]."""
        if not self.centred:
            return torch.zeros(*pixel.shape, self.channels, device=images.device)
        # The pixels one row up and no column away, and no row up and one column to the left.
        number = torch.arange(2, device=images.device)
        near = self._bytes(images, pixel, 1 - number, -number).float() / 127.5 - 1
        above, left = near.unbind(2)
        pixel = pixel.unsqueeze(-1)
        first_column = pixel % self.width == 0
        first_row = pixel < self.width
        mean = (above + left) / 2
        return torch.where(first_column, above, torch.where(first_row, left, mean))

    def _bytes(self, images: Tensor, pixel: Tensor, up: Tensor, right: Tensor) -> Tensor:
        """Return the bytes [B, n, k, channels] uint8 of the pixels `up` rows above and `right`
        columns to the right [k] of each of `pixel` [B, n]."""
        pixel = pixel.unsqueeze(-1)
        row = pixel // self.width - up
        column = pixel % self.width + right
        inside = (row >= 0) & (column >= 0) & (column < self.width)
        at = torch.where(inside, row * self.width + column, 0)
        channels = torch.arange(self.channels, device=images.device)
        numbers = at.unsqueeze(-1) * self.channels + channels
        values = images.gather(1, numbers.flatten(1)).view(numbers.shape)
        return torch.where(inside.unsqueeze(-1), values, self.outside)


@cache
def wave_table(waves: int) -> Tensor:
    """Return the table [256, 2 waves] float32: for each byte the sines of pi
    2^k v, k < waves, then the cosines.

    Rounded from exact angles, in 1020ths of a turn, and a power series in float64, and so the same
    on every machine, whatever its mathematics library.
    """
    values = np.arange(-255, 256, 2)[:, None]  # of the bytes, in 255ths
    frequencies = [pow(2, k, 510) for k in range(waves)]  # whole turns left out
    turns = (2 * values * frequencies) % 1020
    angles = np.concatenate([turns, turns + 255], axis=1)
    return torch.from_numpy(_sine(angles)).float()


def _sine(turns: np.ndarray) -> np.ndarray:
    """Return the sine of angles in 1020ths of a turn, by Taylor's series within a quarter of a turn
    of zero."""
    turns = (turns + 510) % 1020 - 510
    mirrored = np.where(turns > 0, 510, -510) - turns  # for the other half of the period
    near_zero = np.where(np.abs(turns) > 255, mirrored, turns)
    x = near_zero / 1020 * 6.283185307179586
    term = x
    total = x
    for power in range(3, 30, 2):
        term = -term * x * x / (power * (power - 1))
        total = total + term
    return total


def _around(rows: int, columns: int) -> tuple[tuple[int, int], ...]:
    above = [(up, right) for up in range(rows, 0, -1) for right in range(-columns, columns + 1)]
    left = [(0, right) for right in range(-columns, 0)]
    return (*above, *left)


def _offsets(rows: int, columns: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the rows up and columns right [k] of `_around`, made on the device: it would wait for
    copies, which no CUDA graph can hold."""
    wide = 2 * columns + 1
    number = torch.arange(rows * wide + columns, device=device)
    up = rows - number // wide
    right = number % wide - columns
    return up, right
