"""The causal convolution against the literal loop: of many pixels however they are divided, and of
one pixel of each image at its own place.
"""

import pytest
import torch

from scanline.kernels import BEYOND
from scanline.kernels.causal_conv import NEIGHBOURS, causal_conv, causal_conv_step
from scanline.kernels.causal_conv.reference import causal_conv as reference
from tests.support.close import assert_close

DEPTH = 5
SIZES = pytest.mark.parametrize(
    ("height", "width"),
    [
        (3, 1),
        (2, 2),
        (4, 3),
        (3, 7),
    ],
)


def inputs(height, width):
    """Two images, weights, and the results of the reference."""
    x = torch.randn(2, height * width, DEPTH)
    conv_weight = torch.randn(NEIGHBOURS, DEPTH)
    return x, conv_weight, torch.stack([reference(image, conv_weight, width) for image in x])


def used_state(width):
    """What an image before has left, of which nothing may be read."""
    return torch.full((2, width + BEYOND, DEPTH), torch.nan)


@SIZES
def test_many_pixels_are_the_reference_however_they_are_divided(height, width):
    x, conv_weight, expected = inputs(height, width)
    assert_close("whole", expected, causal_conv(x, conv_weight, 0, width))
    for size in range(1, height * width + 1):
        conv_state = used_state(width)
        parts = []
        for first in range(0, height * width, size):
            part = x[:, first : first + size]
            parts.append(causal_conv(part, conv_weight, first, width, conv_state))
        assert_close(f"parts of {size}", expected, torch.cat(parts, dim=1))


@SIZES
def test_single_pixels_are_the_reference_at_places_of_their_own(height, width):
    x, conv_weight, expected = inputs(height, width)
    conv_state = used_state(width)
    both = torch.arange(2)
    ahead = height * width // 2  # of the second image before the first
    causal_conv(x[1:, :ahead], conv_weight, 0, width, conv_state[1:])
    for first in range(height * width - ahead):
        pixel = torch.tensor([first, first + ahead])
        y = causal_conv_step(x[both, pixel], conv_weight, pixel, width, conv_state)
        assert_close(f"pixels {pixel}", expected[both, pixel], y)
