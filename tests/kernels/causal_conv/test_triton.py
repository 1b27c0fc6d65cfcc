"""The causal convolution in Triton, of painting and of training, against the literal loop and its
gradients.
"""

import pytest
import torch
import torch.nn.functional as F

from tests.support.kernels.gpu import DEVICE, ON_GPU, there  # isort: skip

from scanline.kernels import BEYOND, attention, gpu
from scanline.kernels import causal_conv as package
from scanline.kernels.causal_conv import NEIGHBOURS
from scanline.kernels.causal_conv.reference import causal_conv as reference
from scanline.kernels.causal_conv.training_triton import PIXELS, normed_causal_conv
from scanline.kernels.causal_conv.triton import causal_conv, causal_conv_sequence
from scanline.kernels.triton.moments import row_moments
from scanline.model.training.optimise.loss import loss_of
from tests.support import small_models
from tests.support.close import assert_close
from tests.support.sweeps import and_slow

DEPTH = 70  # more than one block of moments, and a part of one
CHANNELS = 3
PIXEL = 1  # that the second image begins with when pixels are read at once


@pytest.mark.parametrize(
    ("height", "width", "is_normed"), [(5, 1, False), (2, 2, True), (3, 3, True)]
)
def test_pixels_are_the_reference_and_many_at_once_have_the_same_bits(height, width, is_normed):
    pixels = height * width
    x, conv_weight, weight, bias = there(
        torch.randn(pixels, 2, DEPTH) + 1,
        torch.randn(NEIGHBOURS, DEPTH),
        torch.randn(DEPTH),
        torch.randn(DEPTH),
    )
    moments = row_moments(x.flatten(0, 1)).unflatten(0, (pixels, 2))
    norm = (weight, bias) if is_normed else None
    h = F.layer_norm(x, (DEPTH,), weight, bias) if is_normed else x

    # One pixel after the other. Slot 1 is of no image, the slots are in another order than the
    # images, and what is kept at first is no number.
    slots = torch.tensor([2, -1, 0], device=DEVICE)
    image_of_row = torch.tensor([0, 0, 1], device=DEVICE)
    conv_state = torch.full((3, width + BEYOND, DEPTH), torch.nan, device=DEVICE)
    expected = torch.empty_like(x)
    before = torch.empty_like(conv_state[:2])
    for pixel in range(pixels):
        if pixel == 0:
            before[0] = conv_state[2]
        if pixel == PIXEL:
            before[1] = conv_state[0]
        position = torch.full((3,), pixel * CHANNELS, device=DEVICE)
        out = torch.full((3, DEPTH), 7.0, device=DEVICE)
        causal_conv(
            x[pixel, image_of_row],
            conv_weight,
            slots,
            position,
            conv_state,
            CHANNELS,
            out,
            norm,
            moments[pixel, image_of_row],
        )
        assert (out[1] == 7).all()
        expected[pixel] = out[::2]
    assert conv_state[1].isnan().all()
    for image in range(2):
        assert_close("y", reference(h[:, image], conv_weight, width), expected[:, image], 1e-4)

    # The same at once, in two parts; the second image ends before the last pixel.
    pixel = torch.arange(pixels, device=DEVICE)[:, None].expand(pixels, 2)
    live = torch.ones(pixels, 2, dtype=torch.bool, device=DEVICE)
    live[:PIXEL, 1] = False
    live[-1, 1] = False
    rows = torch.where(live, torch.arange(2, device=DEVICE), -1)
    out = torch.zeros_like(expected)
    for part in (slice(0, pixels // 2), slice(pixels // 2, pixels)):
        causal_conv_sequence(
            x[part].flatten(0, 1),
            conv_weight,
            rows[part].flatten(),
            pixel[part].flatten() * CHANNELS,
            before,
            CHANNELS,
            out[part].flatten(0, 1),
            norm,
            moments[part].flatten(0, 1),
        )
    assert torch.equal(torch.where(live[:, :, None], expected, 0), out)
    assert torch.equal(conv_state[2].nan_to_num(), before[0].nan_to_num())


def inputs(pixels, depth):
    """Two images, scale and shift of the norm, and weights of the convolution."""
    return there(
        torch.randn(2, pixels, depth) * 1.5 + 0.3,
        torch.randn(depth),
        torch.randn(depth),
        torch.randn(NEIGHBOURS, depth),
    )


@pytest.mark.parametrize(
    ("height", "width", "depth", "dtype"),
    [
        (1, 1, 3, torch.float32),
        (5, 2, 20, torch.float32),
        (5, 7, 33, torch.float32),  # more than one program for an image
        (3, 4, 20, torch.bfloat16),
    ],
)
def test_results_and_gradients_are_the_reference(height, width, depth, dtype):
    assert PIXELS < 5 * 7
    leaves = [tensor.requires_grad_() for tensor in inputs(height * width, depth)]
    wide = [tensor.detach().double().requires_grad_() for tensor in leaves]
    x, weight, bias, conv_weight = wide
    normed = F.layer_norm(x, (depth,), weight, bias)
    expected = torch.stack([reference(image, conv_weight, width) for image in normed])
    y = normed_causal_conv(*leaves, width, dtype)
    assert y.dtype == dtype
    of_y = torch.randn_like(expected)
    expected_gradients = torch.autograd.grad(expected, wide, of_y, materialize_grads=True)
    gradients = torch.autograd.grad(y, leaves, of_y.to(dtype))
    bound = 6 * torch.finfo(dtype).eps if dtype == torch.bfloat16 else 1.5e-4
    assert_close("y", expected, y, bound)
    for leaf, right, result in zip(leaves, expected_gradients, gradients, strict=True):
        assert_close(f"gradient of {list(leaf.shape)}", right, result, bound)


@pytest.mark.parametrize("dtype", and_slow([torch.float32], torch.bfloat16))
def test_the_network_trains_by_them_in_one_graph(dtype, monkeypatch):
    gpu._trains.cache_clear()
    monkeypatch.setattr(gpu, "missing", lambda device: None)
    if not ON_GPU:  # Triton's interpreter cannot multiply bfloat16, which attention is tried in
        monkeypatch.setattr(attention, "TRAINING_DTYPES", (torch.float32,))
    config = small_models.config_of("pixels", blocks=1, block_width=9)
    model = small_models.model(config).requires_grad_(True).to(DEVICE)
    (batch,) = there(small_models.tensor(config, 2))
    torch.compiler.reset()
    torch.compiler.assume_constant_result(gpu.trains)  # as compile_loss does
    compiled = torch.compile(loss_of, dynamic=False, fullgraph=not ON_GPU, backend="aot_eager")

    def loss_and_gradients(loss, device):
        monkeypatch.setattr(gpu, "TRAINING", device)
        value = loss(model, batch, dtype)
        gradients = torch.autograd.grad(value, list(model.parameters()))
        return torch.cat([value.view(1), *(gradient.flatten() for gradient in gradients)])

    expected = loss_and_gradients(loss_of, "none")
    bound = (1e-5 if dtype == torch.float32 else 0.02) * expected.norm()
    assert (loss_and_gradients(loss_of, DEVICE) - expected).norm() < bound
    assert (loss_and_gradients(compiled, DEVICE) - expected).norm() < bound
    assert gpu._trains.cache_info().currsize == 2 if dtype == torch.float32 or ON_GPU else 1


def test_kernels_that_do_not_run_are_unused(monkeypatch, caplog):
    gpu._trains.cache_clear()
    monkeypatch.setattr(gpu, "TRAINING", DEVICE)
    monkeypatch.setattr(gpu, "missing", lambda device: "Triton is not installed")
    x, weight, bias, conv_weight = inputs(12, 8)
    y = package.normed_causal_conv(x.requires_grad_(), weight, bias, conv_weight, 4)
    normed = F.layer_norm(x, (8,), weight, bias)
    assert torch.equal(y, package.causal_conv(normed, conv_weight, 0, 4))
    (line,) = caplog.messages
    assert line.endswith("with gradients: by torch, which is slower (Triton is not installed)")
    gpu._trains.cache_clear()
