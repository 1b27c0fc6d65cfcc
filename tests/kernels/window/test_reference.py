"""The window's inputs: the numbers that the module's text says, and
nothing of what is not painted yet.
"""

import math
from itertools import product

import pytest
import torch

from scanline.kernels.window import Window, wave_table
from tests.support.close import assert_close

GREY = Window(5, 4, 1, 2, 3, waves=3, wave_rows=1, wave_columns=2, outside=7)
COLOUR = Window(4, 6, 3, 1, 2, outside=128, centred=True)
BOTH = Window(3, 5, 3, 3, 1, waves=8, wave_rows=2, wave_columns=1, outside=255, centred=True)
ALONE = Window(1, 3, 1, 1, 1, centred=True)
WINDOWS = pytest.mark.parametrize(
    "window", [GREY, COLOUR, BOTH, ALONE], ids=["grey", "colour", "both", "one row"]
)


def images(window: Window, count: int = 2) -> torch.Tensor:
    length = window.height * window.width * window.channels
    return torch.randint(
        0, 256, (count, length), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )


def pixels(window: Window) -> torch.Tensor:
    return torch.arange(window.height * window.width).unsqueeze(0)


def as_written(window: Window, image: torch.Tensor, row: int, column: int) -> list[float]:
    """The inputs of one pixel, number by number."""
    picture = image.view(window.height, window.width, window.channels).tolist()

    def byte(up: int, right: int, channel: int) -> int:
        y = row - up
        x = column + right
        return picture[y][x][channel] if y >= 0 and 0 <= x < window.width else window.outside

    def around(rows: int, columns: int) -> list[tuple[int, int]]:
        every = [
            (up, right) for up in range(rows, -1, -1) for right in range(-columns, columns + 1)
        ]
        return [(up, right) for up, right in every if up > 0 or right < 0]

    channels = range(window.channels)
    reference = [0.0 for _ in channels]
    if window.centred:
        left, above = ([byte(*at, c) / 127.5 - 1 for c in channels] for at in ((0, -1), (1, 0)))
        mean = [(a + b) / 2 for a, b in zip(left, above, strict=True)]
        reference = above if column == 0 else left if row == 0 else mean
    near = around(window.rows, window.columns)
    inputs = [byte(*at, c) / 127.5 - 1 - reference[c] for at in near for c in channels]
    inputs += reference if window.centred else []
    for at in around(window.wave_rows, window.wave_columns) if window.waves else []:
        for c in channels:
            angles = [math.pi * 2**k * (byte(*at, c) / 127.5 - 1) for k in range(window.waves)]
            inputs += [math.sin(angle) for angle in angles] + [math.cos(angle) for angle in angles]
    return inputs


@WINDOWS
def test_every_input_is_the_number_that_the_text_says(window: Window) -> None:
    given = images(window)
    inputs, reference = window.read(given, pixels(window))
    assert inputs.shape == (2, window.height * window.width, window.inputs)
    for i, pixel in product(range(2), range(window.height * window.width)):
        expected = torch.tensor(as_written(window, given[i], *divmod(pixel, window.width)))
        assert_close(f"pixel {pixel}", expected, inputs[i, pixel])
    if window.centred:
        assert torch.equal(
            reference, inputs[..., window.linear_inputs - window.channels : window.linear_inputs]
        )
    else:
        assert not reference.any()


@WINDOWS
def test_a_pixel_reads_nothing_of_itself_or_of_later_ones(window: Window) -> None:
    given = images(window, 1)
    for pixel in range(window.height * window.width):
        other = given.clone()
        other[:, pixel * window.channels :] += 77
        at = torch.tensor([[pixel]])
        for one, two in zip(window.read(given, at), window.read(other, at), strict=True):
            assert torch.equal(one, two)


@WINDOWS
def test_each_image_may_be_at_a_pixel_of_its_own(window: Window) -> None:
    given = images(window)
    whole, _ = window.read(given, pixels(window))
    last = window.height * window.width - 1
    apart, _ = window.read(given, torch.tensor([[last], [0]]))
    assert torch.equal(apart, torch.stack((whole[0, last:], whole[1, :1])))


def test_waves_are_correctly_rounded_sines_and_cosines() -> None:
    table = wave_table(10)
    assert table.shape == (256, 20)
    for byte in (0, 1, 64, 127, 128, 200, 255):
        for k in range(10):
            angle = 2 * math.pi * ((2**k * (2 * byte - 255)) % 510) / 510
            assert abs(table[byte, k] - math.sin(angle)) < 1e-7
            assert abs(table[byte, 10 + k] - math.cos(angle)) < 1e-7
