"""Norm and causal convolution as training on a GPU computes them, against the literal loop and float64's gradients."""

import pytest
import torch
import torch.nn.functional as F

from tests.support.kernels.gpu import DEVICE, ON_GPU, there  # isort: skip

from scanline.kernels import attention, causal_conv, gpu
from scanline.kernels.causal_conv import NEIGHBOURS
from scanline.kernels.causal_conv.reference import causal_conv as reference
from scanline.kernels.causal_conv.training_triton import OWN, normed_causal_conv
from scanline.model.training.optimise.loss import loss_of
from tests.support import small_models
from tests.support.close import assert_close


def inputs(height: int, width: int, depth: int) -> list[torch.Tensor]:
    """Two images, weights of the norm, of the convolution, and a gradient of the results."""
    torch.manual_seed(0)
    shapes = (2, height * width, depth), (depth,), (depth,), (NEIGHBOURS, depth), (2, height * width, depth)
    return [torch.randn(shape) * 1.5 + 0.3 for shape in shapes]


@pytest.mark.parametrize(
    ("height", "width", "depth", "dtype"),
    [(1, 1, 3, torch.float32), (5, 2, 20, torch.float32), (5, 7, 33, torch.float32), (3, 4, 20, torch.bfloat16)],
)
def test_results_and_gradients_are_those_of_the_reference(
    height: int, width: int, depth: int, dtype: torch.dtype
) -> None:
    assert OWN < 5 * 7  # more than one program for an image
    given = inputs(height, width, depth)
    x, weight, bias, conv_weight, g = (tensor.double().requires_grad_() for tensor in given)
    normed = F.layer_norm(x, (depth,), weight, bias)
    expected = torch.stack([reference(image, conv_weight, width) for image in normed])
    gradients = torch.autograd.grad(expected, (x, weight, bias, conv_weight), g, materialize_grads=True)

    ours = [tensor.requires_grad_() for tensor in there(*given)]
    y = normed_causal_conv(*ours[:4], width, dtype)
    assert y.dtype == dtype
    bound = 2 * torch.finfo(dtype).eps if dtype == torch.bfloat16 else 5e-5
    assert_close("y", expected, y.cpu(), 3 * bound)
    found = torch.autograd.grad(y, ours[:4], ours[4].to(dtype))
    for name, right, result in zip(("x", "weight", "bias", "conv_weight"), gradients, found, strict=True):
        assert_close(name, right, result.cpu(), 3 * bound)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_network_trains_by_them_in_one_graph(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu._trains.cache_clear()
    monkeypatch.setattr(gpu, "missing", lambda device: None)
    if not ON_GPU:  # Triton's interpreter cannot multiply bfloat16
        monkeypatch.setattr(attention, "TRAINING_DTYPES", (torch.float32,))  # and bfloat16 is not tried
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
        assert (result - found[0]).norm() < (1e-5 if dtype == torch.float32 else 0.02) * found[0].norm()


def test_kernels_that_do_not_run_are_not_used_and_one_line_says_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gpu._trains.cache_clear()
    monkeypatch.setattr(gpu, "TRAINING", DEVICE)
    monkeypatch.setattr(gpu, "missing", lambda device: "Triton is not installed")
    x, weight, bias, conv_weight, _ = there(*inputs(3, 4, 8))
    y = causal_conv.normed_causal_conv(x.requires_grad_(), weight, bias, conv_weight, 4)
    assert torch.equal(y, causal_conv.causal_conv(F.layer_norm(x, (8,), weight, bias), conv_weight, 0, 4))
    (line,) = (record.message for record in caplog.records)
    assert line.endswith("with gradients: by torch, which is slower (Triton is not installed)")
    gpu._trains.cache_clear()
