"""The causal convolution in Triton: the reference's numbers pixel by pixel, and equal bits of many pixels at once."""

import pytest
import torch
import torch.nn.functional as F

from tests.support.kernels.gpu import DEVICE, there  # isort: skip

from scanline.kernels import BEYOND
from scanline.kernels.causal_conv import NEIGHBOURS
from scanline.kernels.causal_conv.reference import causal_conv as reference
from scanline.kernels.causal_conv.triton import causal_conv, causal_conv_sequence
from scanline.kernels.triton.moments import row_moments

DEPTH, CHANNELS = 70, 3  # more than one block of moments, and a part of one
FIRST = (0, 2)  # pixels that are painted one by one before others are read at once
NAN = float("nan")


@pytest.mark.parametrize(("height", "width", "is_normed"), [(5, 1, False), (2, 2, True), (3, 3, True)])
def test_pixels_one_by_one_are_the_reference_and_many_at_once_have_the_same_bits(
    height: int, width: int, is_normed: bool
) -> None:
    torch.manual_seed(0)
    pixels, images = height * width, len(FIRST)
    x, conv_weight, weight, bias = there(
        torch.randn(pixels, images, DEPTH) + 1, torch.randn(NEIGHBOURS, DEPTH), torch.randn(DEPTH), torch.randn(DEPTH)
    )
    moments = row_moments(x.flatten(0, 1)).unflatten(0, (pixels, images))
    norm = (weight, bias) if is_normed else None
    h = F.layer_norm(x, (DEPTH,), weight, bias) if is_normed else x

    # Slot 1 is of no image; the slots are in another order than the images. What is kept at first is no number.
    slots = there(torch.tensor([2, -1, 0]))[0]
    conv_state = torch.full((3, width + BEYOND, DEPTH), NAN, device=DEVICE)
    rows, of_rows = torch.empty(pixels, images, DEPTH, device=DEVICE), torch.tensor([0, 0, 1], device=DEVICE)
    before = torch.full((images, width + BEYOND, DEPTH), NAN, device=DEVICE)
    for pixel in range(pixels):
        position, out = torch.full((3,), pixel * CHANNELS, device=DEVICE), torch.full((3, DEPTH), 7.0, device=DEVICE)
        for image, first in enumerate(FIRST):
            if pixel == first:
                before[image] = conv_state[slots[2 * image]]
        causal_conv(
            x[pixel, of_rows], conv_weight, slots, position, conv_state, CHANNELS, out, norm, moments[pixel, of_rows]
        )
        assert (out[1] == 7).all()
        rows[pixel] = out[::2]
    assert conv_state[1].isnan().all()
    for image in range(images):
        assert torch.allclose(reference(h[:, image].cpu(), conv_weight.cpu(), width), rows[:, image].cpu(), atol=1e-4)

    # The second image starts at its own pixel and ends before the last; the rows are read in two parts.
    pixel = torch.arange(pixels, device=DEVICE)[:, None].expand(pixels, images)
    own, first = torch.arange(images, device=DEVICE), torch.tensor(FIRST, device=DEVICE)
    stop = torch.tensor([pixels, pixels - 1], device=DEVICE)
    live = (pixel >= first) & (pixel < stop)
    half, out = pixels // 2, torch.zeros_like(rows)
    for part in (slice(0, half), slice(half, pixels)):
        causal_conv_sequence(
            x[part].flatten(0, 1), conv_weight, torch.where(live, own, -1)[part].flatten(),
            pixel[part].flatten() * CHANNELS, before, CHANNELS, out[part].flatten(0, 1), norm,
            moments[part].flatten(0, 1),
        )  # fmt: skip
    assert torch.equal(torch.where(live[:, :, None], rows, 0), out)
    assert torch.equal(conv_state[2].nan_to_num(), before[0].nan_to_num())


def test_sizes_that_do_not_fit_are_refused() -> None:
    x, slots, conv_state = torch.zeros(2, 4), torch.zeros(2, dtype=torch.int64), torch.zeros(2, 5, 4)
    with pytest.raises(ValueError, match=r"x \[2, 4\], weight \[6, 4\] and state \[2, 5, 4\] do not fit"):
        causal_conv(x, torch.zeros(6, 4), slots, slots, conv_state, 1, x)
