"""LayerNorm and the causal convolution of whole images on a GPU, with gradients, as one
operator of torch: graphs of torch.compile do not end at it. Reference:
torch.nn.functional.layer_norm, then `reference.causal_conv`.

A program goes through successive pixels of an image. In the backward pass it keeps the sums of nine
rows of weights in registers and adds them up across lanes once, at its end. The gradient of
neighbour k's weight is the sum over pixels p of normed x_p times the gradient at the later pixel of
which p is neighbour k, which the gradient of x_p reads as well.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from scanline.kernels.causal_conv.reference import NEIGHBOURS, OFFSETS
from scanline.kernels.triton.layer_norm import EPSILON

PIXELS = 32  # pixels of a program
# numbers of a row for each warp: more need too many registers, and more warps wait for each other
LANES = 256
UPS = tl.constexpr(tuple(up for up, _ in OFFSETS))
LEFTS = tl.constexpr(tuple(left for _, left in OFFSETS))
COUNT = tl.constexpr(NEIGHBOURS)


def normed_causal_conv(
    x: Tensor,  # [B, N, D] float32: of all pixels of images
    weight: Tensor,  # [D], of the norm, as `bias`
    bias: Tensor,
    conv_weight: Tensor,  # [NEIGHBOURS, D]
    width: int,  # of the images
    dtype: torch.dtype,
) -> Tensor:
    """Return the convolution y [B, N, D] of the normed x, of `dtype`."""
    # Moments are torch's, so that torch.compile adds them to the kernel that computes x. Their
    # gradients are in that of the operator.
    variance, mean = torch.var_mean(x.detach(), dim=-1, correction=0)
    rstd = (variance + EPSILON).rsqrt()
    return _normed_conv(x, mean, rstd, weight, bias, conv_weight, width, dtype)


@torch.library.custom_op("scanline::normed_causal_conv", mutates_args=())
def _normed_conv(
    x: Tensor,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor,
    bias: Tensor,
    conv_weight: Tensor,
    width: int,
    dtype: torch.dtype,
) -> Tensor:
    y = torch.empty_like(x, dtype=dtype)
    inputs = [tensor.contiguous() for tensor in (x, mean, rstd, weight, bias, conv_weight)]
    _launch(_norm_conv, *inputs, y, width=width)
    return y


@torch.library.custom_op("scanline::normed_causal_conv_backward", mutates_args=())
def _gradients(
    g: Tensor,  # [B, N, D]: of y
    x: Tensor,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor,
    bias: Tensor,
    conv_weight: Tensor,
    width: int,
) -> tuple[Tensor, Tensor]:
    """Return the gradients of x and of all weights [2 + NEIGHBOURS, D]: of the norm's, its bias,
    the convolution's."""
    grad = torch.empty_like(x)
    batch, pixels, depth = x.shape
    programs = batch * triton.cdiv(pixels, PIXELS)
    sums = x.new_empty(programs, 2 + NEIGHBOURS, depth)
    inputs = [tensor.contiguous() for tensor in (x, mean, rstd, weight, bias, conv_weight, g)]
    _launch(_norm_conv_backward, *inputs, grad, sums, width=width)
    return grad, sums.sum(0)


@_normed_conv.register_fake
def _(x, mean, rstd, weight, bias, conv_weight, width, dtype):
    return torch.empty_like(x, dtype=dtype)


@_gradients.register_fake
def _(g, x, mean, rstd, weight, bias, conv_weight, width):
    return torch.empty_like(x), x.new_empty(2 + NEIGHBOURS, x.shape[2])


def _save(ctx, inputs, output):
    *tensors, ctx.width, _ = inputs
    ctx.save_for_backward(*tensors)


def _backward_of_conv(ctx, g):
    grad, of_weights = _gradients(g, *ctx.saved_tensors, ctx.width)
    return grad, None, None, of_weights[0], of_weights[1], of_weights[2:], None, None


_normed_conv.register_autograd(_backward_of_conv, setup_context=_save)


def run_once(device: torch.device, depth: int) -> None:
    """Run both kernels on a few pixels."""
    x = torch.ones(1, 8, depth, device=device)
    weight = torch.ones(depth, device=device)
    conv_weight = torch.ones(NEIGHBOURS, depth, device=device)
    y = normed_causal_conv(x.requires_grad_(), weight, weight, conv_weight, 4, torch.float32)
    torch.autograd.grad(y.sum(), x)


def _launch(kernel: triton.JITFunction, x: Tensor, *tensors: Tensor, width: int) -> None:
    batch, pixels, depth = x.shape
    block = triton.next_power_of_2(depth)
    kernel[(triton.cdiv(pixels, PIXELS), batch)](
        x, *tensors, pixels, width, depth, block, PIXELS, num_warps=triton.cdiv(block, LANES)
    )


@triton.jit
def _norm_conv(
    x,
    mean,
    rstd,
    weight,
    bias,
    conv_weight,
    y,
    pixels: tl.constexpr,
    width: tl.constexpr,
    depth: tl.constexpr,
    block: tl.constexpr,
    per_program: tl.constexpr,
):
    first = tl.program_id(0) * per_program
    image = tl.program_id(1).to(tl.int64) * pixels
    d = tl.arange(0, block)
    there = d < depth
    # Scale and shift stay in registers for all pixels. Neighbours are normed again
    # from x: no normed x is stored. One beyond the border is the pixel itself,
    # weighted by 0, so that every address is valid.
    scale = tl.load(weight + d, mask=there, other=0.0)
    shift = tl.load(bias + d, mask=there, other=0.0)
    for pixel in range(first, tl.minimum(first + per_program, pixels)):
        row = image + pixel
        value = tl.load(x + row * depth + d, mask=there, other=0.0)
        total = (value - tl.load(mean + row)) * tl.load(rstd + row) * scale + shift
        for k in tl.static_range(COUNT):
            column = pixel % width - LEFTS[k]
            inside = (pixel >= UPS[k] * width) & (column >= 0) & (column < width)
            near = tl.where(inside, row - UPS[k] * width - LEFTS[k], row)
            value = tl.load(x + near * depth + d, mask=there, other=0.0)
            normed = (value - tl.load(mean + near)) * tl.load(rstd + near) * scale + shift
            total += (
                tl.where(inside, 1.0, 0.0)
                * tl.load(conv_weight + k * depth + d, mask=there, other=0.0)
                * normed
            )
        tl.store(y + row * depth + d, total.to(y.dtype.element_ty), mask=there)


@triton.jit
def _norm_conv_backward(
    x,
    mean,
    rstd,
    weight,
    bias,
    conv_weight,
    g,
    grad,
    sums,
    pixels: tl.constexpr,
    width: tl.constexpr,
    depth: tl.constexpr,
    block: tl.constexpr,
    per_program: tl.constexpr,
):
    first = tl.program_id(0) * per_program
    image = tl.program_id(1).to(tl.int64) * pixels
    d = tl.arange(0, block)
    there = d < depth
    scale = tl.load(weight + d, mask=there, other=0.0)
    shift = tl.load(bias + d, mask=there, other=0.0)
    of_weight = tl.zeros((block,), tl.float32)
    of_bias = tl.zeros((block,), tl.float32)
    s0 = of_bias
    s1 = of_bias
    s2 = of_bias
    s3 = of_bias
    s4 = of_bias
    s5 = of_bias
    s6 = of_bias
    for pixel in range(first, tl.minimum(first + per_program, pixels)):
        row = image + pixel
        factor = tl.load(rstd + row)
        value = tl.load(x + row * depth + d, mask=there, other=0.0)
        centred = tl.where(there, (value - tl.load(mean + row)) * factor, 0.0)
        normed = centred * scale + shift
        of_normed = tl.load(g + row * depth + d, mask=there, other=0.0).to(tl.float32)
        for k in tl.static_range(COUNT):
            # the later pixel of which this one is neighbour k
            column = pixel % width + LEFTS[k]
            in_image = pixel + (UPS[k] * width + LEFTS[k]) < pixels
            inside = in_image & (column >= 0) & (column < width)
            later = row + (UPS[k] * width + LEFTS[k])
            value = tl.load(g + later * depth + d, mask=there & inside, other=0.0).to(tl.float32)
            of_normed += tl.load(conv_weight + k * depth + d, mask=there, other=0.0) * value
            value *= normed
            if k == 0:
                s0 += value
            elif k == 1:
                s1 += value
            elif k == 2:
                s2 += value
            elif k == 3:
                s3 += value
            elif k == 4:
                s4 += value
            elif k == 5:
                s5 += value
            else:
                s6 += value
        of_weight += of_normed * centred
        of_bias += of_normed
        of_normed *= scale
        common = tl.sum(of_normed, axis=0) / depth + centred * (
            tl.sum(of_normed * centred, axis=0) / depth
        )
        tl.store(grad + row * depth + d, (of_normed - common) * factor, mask=there)
    place = (
        sums + (tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)) * (2 + COUNT) * depth + d
    )
    tl.store(place, of_weight, mask=there)
    tl.store(place + depth, of_bias, mask=there)
    tl.store(place + 2 * depth, s0, mask=there)
    tl.store(place + 3 * depth, s1, mask=there)
    tl.store(place + 4 * depth, s2, mask=there)
    tl.store(place + 5 * depth, s3, mask=there)
    tl.store(place + 6 * depth, s4, mask=there)
    tl.store(place + 7 * depth, s5, mask=there)
    tl.store(place + 8 * depth, s6, mask=there)
