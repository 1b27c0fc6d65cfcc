"""The causal convolution in Triton, of painting and of training, against
the literal loop and its gradients.
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

# more than one block of moments, and a part of one
DEPTH = 70
CHANNELS = 3
FIRST = (0, 2)  # pixels that are painted one by one before others are read at once
NAN = float("nan")


@pytest.mark.parametrize(
    ("height", "width", "is_normed"), [(5, 1, False), (2, 2, True), (3, 3, True)]
)
def test_pixels_are_the_reference_and_many_at_once_have_the_same_bits(
    height: int, width: int, is_normed: bool
) -> None:
    pixels = height * width
    images = len(FIRST)
    x, conv_weight, weight, bias = there(
        torch.randn(pixels, images, DEPTH) + 1,
        torch.randn(NEIGHBOURS, DEPTH),
        torch.randn(DEPTH),
        torch.randn(DEPTH),
    )
    moments = row_moments(x.flatten(0, 1)).unflatten(0, (pixels, images))
    norm = (weight, bias) if is_normed else None
    h = F.layer_norm(x, (DEPTH,), weight, bias) if is_normed else x
    # Slot 1 is of no image; the slots are in another order than the images.
    # What is kept at first is no number.
    slots = there(torch.tensor([2, -1, 0]))[0]
    conv_state = torch.full((3, width + BEYOND, DEPTH), NAN, device=DEVICE)
    rows = torch.empty(pixels, images, DEPTH, device=DEVICE)
    of_rows = torch.tensor([0, 0, 1], device=DEVICE)
    before = torch.full((images, width + BEYOND, DEPTH), NAN, device=DEVICE)
    for pixel in range(pixels):
        position = torch.full((3,), pixel * CHANNELS, device=DEVICE)
        out = torch.full((3, DEPTH), 7.0, device=DEVICE)
        for image, first in enumerate(FIRST):
            if pixel == first:
                before[image] = conv_state[slots[2 * image]]
        causal_conv(
            x[pixel, of_rows],
            conv_weight,
            slots,
            position,
            conv_state,
            CHANNELS,
            out,
            norm,
            moments[pixel, of_rows],
        )
        assert (out[1] == 7).all()
        rows[pixel] = out[::2]
    assert conv_state[1].isnan().all()
    for image in range(images):
        assert torch.allclose(
            reference(h[:, image].cpu(), conv_weight.cpu(), width), rows[:, image].cpu(), atol=1e-4
        )
    # The second image starts at its own pixel and ends before the
    # last; the rows are read in two parts.
    pixel = torch.arange(pixels, device=DEVICE)[:, None].expand(pixels, images)
    own = torch.arange(images, device=DEVICE)
    first = torch.tensor(FIRST, device=DEVICE)
    live = (pixel >= first) & (pixel < torch.tensor([pixels, pixels - 1], device=DEVICE))
    half = pixels // 2
    out = torch.zeros_like(rows)
    for part in (slice(0, half), slice(half, pixels)):
        causal_conv_sequence(
            x[part].flatten(0, 1), conv_weight, torch.where(live, own, -1)[part].flatten(),
            pixel[part].flatten() * CHANNELS, before, CHANNELS, out[part].flatten(0, 1), norm,
            moments[part].flatten(0, 1),
        )  # fmt: skip
    assert torch.equal(torch.where(live[:, :, None], rows, 0), out)
    assert torch.equal(conv_state[2].nan_to_num(), before[0].nan_to_num())


def test_sizes_that_do_not_fit_are_refused() -> None:
    x = torch.zeros(2, 4)
    slots = torch.zeros(2, dtype=torch.int64)
    conv_state = torch.zeros(2, 5, 4)
    with pytest.raises(
        ValueError, match=r"x \[2, 4\], weight \[6, 4\] and state \[2, 5, 4\] do not fit"
    ):
        causal_conv(x, torch.zeros(6, 4), slots, slots, conv_state, 1, x)


def inputs(height: int, width: int, depth: int) -> list[torch.Tensor]:
    """Two images, weights of the norm, of the convolution, and a gradient of the results."""
    shapes = (
        (2, height * width, depth),
        (depth,),
        (depth,),
        (NEIGHBOURS, depth),
        (2, height * width, depth),
    )
    return [torch.randn(shape) * 1.5 + 0.3 for shape in shapes]


@pytest.mark.parametrize(
    ("height", "width", "depth", "dtype"),
    [
        (1, 1, 3, torch.float32),
        (5, 2, 20, torch.float32),
        (5, 7, 33, torch.float32),
        (3, 4, 20, torch.bfloat16),
    ],
)
def test_results_and_gradients_are_the_reference(
    height: int, width: int, depth: int, dtype: torch.dtype
) -> None:
    assert PIXELS < 5 * 7  # more than one program for an image
    given = inputs(height, width, depth)
    x, weight, bias, conv_weight, g = (tensor.double().requires_grad_() for tensor in given)
    normed = F.layer_norm(x, (depth,), weight, bias)
    expected = torch.stack([reference(image, conv_weight, width) for image in normed])
    gradients = torch.autograd.grad(
        expected, (x, weight, bias, conv_weight), g, materialize_grads=True
    )
    ours = [tensor.requires_grad_() for tensor in there(*given)]
    y = normed_causal_conv(*ours[:4], width, dtype)
    assert y.dtype == dtype
    bound = 2 * torch.finfo(dtype).eps if dtype == torch.bfloat16 else 5e-5
    assert_close("y", expected, y.cpu(), 3 * bound)
    found = torch.autograd.grad(y, ours[:4], ours[4].to(dtype))
    for name, right, result in zip(
        ("x", "weight", "bias", "conv_weight"), gradients, found, strict=True
    ):
        assert_close(name, right, result.cpu(), 3 * bound)


@pytest.mark.parametrize("dtype", and_slow([torch.float32], torch.bfloat16))
def test_the_network_trains_by_them_in_one_graph(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu._trains.cache_clear()
    monkeypatch.setattr(gpu, "missing", lambda device: None)
    if not ON_GPU:  # Triton's interpreter cannot multiply bfloat16
        # and bfloat16 is not tried
        monkeypatch.setattr(attention, "TRAINING_DTYPES", (torch.float32,))
    config = small_models.config(**small_models.VARIANTS["pixels"], blocks=1, block_width=9)
    model = small_models.model(config).requires_grad_(True).to(DEVICE)
    (batch,) = there(torch.from_numpy(small_models.images(config, 2)))
    torch.compiler.reset()
    torch.compiler.assume_constant_result(gpu.trains)  # as compile_loss does
    compiled = torch.compile(loss_of, dynamic=False, fullgraph=not ON_GPU, backend="aot_eager")
    found = []
    for loss, device in ((loss_of, "none"), (loss_of, DEVICE), (compiled, DEVICE)):
        monkeypatch.setattr(gpu, "TRAINING", device)
        value = loss(model, batch, dtype)
        gradients = torch.autograd.grad(value, list(model.parameters()))
        found.append(torch.cat([value.view(1), *(gradient.flatten() for gradient in gradients)]))
    assert gpu._trains.cache_info().currsize == 2 if dtype == torch.float32 or ON_GPU else 1
    for result in found[1:]:
        assert (result - found[0]).norm() < (1e-5 if dtype == torch.float32 else 0.02) * found[
            0
        ].norm()


def test_kernels_that_do_not_run_are_unused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gpu._trains.cache_clear()
    monkeypatch.setattr(gpu, "TRAINING", DEVICE)
    monkeypatch.setattr(gpu, "missing", lambda device: "Triton is not installed")
    x, weight, bias, conv_weight, _ = there(*inputs(3, 4, 8))
    y = package.normed_causal_conv(x.requires_grad_(), weight, bias, conv_weight, 4)
    assert torch.equal(
        y, package.causal_conv(F.layer_norm(x, (8,), weight, bias), conv_weight, 0, 4)
    )
    (line,) = caplog.messages
    assert line.endswith("with gradients: by torch, which is slower (Triton is not installed)")
    gpu._trains.cache_clear()
