import pytest
import torch

from scanline.kernels import BEYOND
from scanline.kernels.neighbours import NEIGHBOURS, mix, mix_step
from scanline.kernels.neighbours.reference import mixed

NAN = float("nan")


def inputs(height: int, width: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(2, height * width, 5, generator=random)
    taps = torch.randn(NEIGHBOURS, 5, generator=random)
    return x, taps, torch.stack([mixed(image, taps, width) for image in x])


@pytest.mark.parametrize(("height", "width"), [(1, 1), (3, 1), (2, 2), (4, 3), (3, 7)])
def test_many_pixels_are_the_reference_however_they_are_divided(height: int, width: int) -> None:
    x, taps, expected = inputs(height, width)
    assert torch.allclose(mix(x, taps, 0, width), expected, atol=1e-6)
    for size in range(1, height * width + 1):
        recent = torch.full((2, width + BEYOND, 5), NAN)  # of an image before: nothing of it is read
        parts = [mix(part, taps, i * size, width, recent) for i, part in enumerate(x.split(size, dim=1))]
        assert torch.allclose(torch.cat(parts, dim=1), expected, atol=1e-6)


@pytest.mark.parametrize(("height", "width"), [(1, 1), (3, 1), (2, 2), (4, 3), (3, 7)])
def test_single_pixels_are_the_reference_at_places_of_their_own(height: int, width: int) -> None:
    x, taps, expected = inputs(height, width)
    recent = torch.full((2, width + BEYOND, 5), NAN)
    ahead = height * width // 2  # of the second image before the first
    for pixel in range(ahead):
        mix(x[1:, pixel : pixel + 1], taps, pixel, width, recent[1:])
    for first in range(height * width - ahead):
        pixel = torch.tensor([first, first + ahead])
        y = mix_step(x[[0, 1], pixel], taps, pixel, width, recent)
        assert torch.allclose(y, expected[[0, 1], pixel], atol=1e-6)
