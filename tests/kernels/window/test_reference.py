"""The window's inputs: the numbers that the module's text says, and nothing of what is not painted
yet.
"""

import math

import pytest
import torch

from scanline.kernels.window import wave_table
from tests.support.close import assert_close
from tests.support.kernels.windows import WINDOWS


def random_image(window):
    length = window.height * window.width * window.channels
    return torch.randint(0, 256, (1, length), dtype=torch.uint8)


def as_written(window, image, row, column):
    """The inputs of one pixel, number by number."""
    picture = image.view(window.height, window.width, window.channels).tolist()

    def value(up, right, channel):
        y = row - up
        x = column + right
        inside = y >= 0 and 0 <= x < window.width
        return (picture[y][x][channel] if inside else window.outside) / 127.5 - 1

    def around(rows, columns):
        """The pixels above and before this one."""
        places = []
        for up in range(rows, -1, -1):
            for right in range(-columns, columns + 1):
                if up > 0 or right < 0:
                    places.append((up, right))
        return places

    channels = range(window.channels)
    reference = [0.0 for _ in channels]
    if window.centred:
        for channel in channels:
            left = value(0, -1, channel)
            above = value(1, 0, channel)
            if column == 0:
                left = above
            elif row == 0:
                above = left
            reference[channel] = (left + above) / 2
    inputs = []
    for place in around(window.rows, window.columns):
        inputs += [value(*place, channel) - reference[channel] for channel in channels]
    if window.centred:
        inputs += reference
    for place in around(window.wave_rows, window.wave_columns) if window.waves else []:
        for channel in channels:
            angle = math.pi * value(*place, channel)
            inputs += [math.sin(2**k * angle) for k in range(window.waves)]
            inputs += [math.cos(2**k * angle) for k in range(window.waves)]
    return inputs


@pytest.mark.parametrize("name", WINDOWS)
def test_every_input_is_the_number_that_the_text_says(name):
    window = WINDOWS[name]
    image = random_image(window)
    pixels = window.height * window.width
    inputs, reference = window.read(image, torch.arange(pixels).unsqueeze(0))
    assert inputs.shape == (1, pixels, window.inputs)
    for pixel in range(pixels):
        expected = torch.tensor(as_written(window, image, *divmod(pixel, window.width)))
        assert_close(f"pixel {pixel}", expected, inputs[0, pixel])
    if window.centred:
        own = slice(window.linear_inputs - window.channels, window.linear_inputs)
        assert torch.equal(reference, inputs[..., own])
    else:
        assert not reference.any()


@pytest.mark.parametrize("name", WINDOWS)
def test_a_pixel_reads_nothing_of_itself_or_of_later_ones(name):
    window = WINDOWS[name]
    image = random_image(window)
    for pixel in range(window.height * window.width):
        other = image.clone()
        other[:, pixel * window.channels :] += 77
        at = torch.tensor([[pixel]])
        inputs, reference = window.read(image, at)
        other_inputs, other_reference = window.read(other, at)
        assert torch.equal(inputs, other_inputs)
        assert torch.equal(reference, other_reference)


def test_waves_are_correctly_rounded_sines_and_cosines():
    table = wave_table(10)
    assert table.shape == (256, 20)
    for byte in (0, 1, 64, 127, 128, 200, 255):
        for k in range(10):
            angle = 2 * math.pi * ((2**k * (2 * byte - 255)) % 510) / 510
            assert abs(table[byte, k] - math.sin(angle)) < 1e-7
            assert abs(table[byte, 10 + k] - math.cos(angle)) < 1e-7
