"""The two kernels that take most of a step, alone: the recurrent step, and the products with what is fused into
them."""

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F

import scanline.kernels.step.fused_triton as step
from benchmarks.gpu.ceilings import copy_rate
from benchmarks.gpu.results import Finding
from benchmarks.gpu.sizes import PAPER, Sizes, config
from benchmarks.gpu.timing import microseconds, survived
from scanline.kernels.triton.linear import Halves, linear
from scanline.kernels.triton.moments import row_moments

ROWS = (1, 64, 1024, 4096)


def kernels(sizes: Sizes) -> Iterator[Finding]:
    """One layer of the paper's MNIST model, kernel by kernel."""
    yield from recurrent_step(sizes)
    yield from products(sizes)
    yield from errors(sizes)


def recurrent_step(sizes: Sizes) -> Iterator[Finding]:
    """The recurrence of one layer for all images, rows in random order, and its share of the copy bandwidth."""
    of, batch, device = config(PAPER[0], sizes), sizes.most, sizes.device
    heads, c, m = of.heads, of.key_width, of.value_width
    projected = torch.randn(batch, heads * (2 * c + m), device=device)
    rows, y = torch.randperm(batch, device=device), torch.empty(batch, heads * m, device=device)
    z = torch.ones(batch, heads, c, device=device)
    copy = copy_rate(sizes.copied, sizes)
    for dtype in (torch.float32, torch.float16):
        s = torch.ones(batch, heads, c, m, device=device, dtype=dtype)
        moved = 2 * s.nbytes + 2 * z.nbytes + projected.nbytes + y.nbytes
        time = microseconds(lambda s=s: step.fused_recurrent_step(projected, s, z, rows, y=y), sizes)
        what = f"kernels/step/{str(dtype).removeprefix('torch.')}/{batch}"
        yield Finding(what, time, "us")
        yield Finding(f"{what}/of_copy", moved / time / 1e6 / copy, "")


def layer_products(sizes: Sizes) -> dict[str, tuple[int, int, bool, str, bool]]:
    """The four products of a layer: inner and outer width, whether x is normed, the activation, whether x is added."""
    of = config(PAPER[0], sizes)
    width, keys, hidden = of.model_width, of.heads * of.key_width, of.feed_forward
    return {
        "query_key_value": (width, 2 * keys + width, True, "none", False),
        "attention_out": (width, width, False, "none", True),
        "feed_forward_in": (width, hidden, True, of.activation, False),
        "feed_forward_out": (hidden, width, False, "none", True),
    }


def products(sizes: Sizes) -> Iterator[Finding]:
    """The four products of a layer as the step launches them, and torch's product alone."""
    device = sizes.device
    for batch in ROWS if not sizes.dry else (2,):
        for name, (inner, outer, normed, activation, residual) in layer_products(sizes).items():
            x, weight = torch.randn(batch, inner, device=device), torch.randn(outer, inner, device=device) / 16
            halves = Halves.of(weight.half().float())
            bias, out = torch.zeros(outer, device=device), torch.zeros(batch, outer, device=device)
            # Moments of rows are there before a product with a norm, and written by one that changes x.
            norm = (torch.ones(inner, device=device), torch.zeros(inner, device=device)) if normed else None
            moments = {"moments": row_moments(x)} if normed else {"out_moments": row_moments(out)}
            calls: dict[str, Callable[[], object]] = {
                "ours": lambda x=x, h=halves, b=bias, o=out, n=norm, a=activation, r=residual, m=moments: linear(
                    x, h, b, o, n, a, o if r else None, **m
                ),
                "torch_float32_alone": lambda x=x, w=weight: F.linear(x, w),
            }
            for who, call in calls.items():
                what = f"kernels/product/{batch}/{name}/{who}"
                try:
                    time = microseconds(call, sizes)
                except Exception as error:
                    yield Finding(what, None, note=survived(error))
                    continue
                yield Finding(what, time, "us", f"{2 * batch * inner * outer / time / 1e6:.1f} TFLOP/s")


def errors(sizes: Sizes) -> Iterator[Finding]:
    """The largest error of a product relative to sum |x| |w|, against float64: ours, and torch's float32 product."""
    rows = 4 if sizes.dry else 256
    for inner in (16,) if sizes.dry else (256, 1024):
        x = torch.randn(rows, inner, device=sizes.device)
        weight = (torch.randn(rows, inner, device=sizes.device) / 16).half().float()
        out, bias = torch.empty(rows, rows, device=sizes.device), torch.zeros(rows, device=sizes.device)
        exact, scale = x.double() @ weight.double().T, x.double().abs() @ weight.double().abs().T
        found = {"ours": linear(x, Halves.of(weight), bias, out), "torch_float32": F.linear(x, weight)}
        for who, result in found.items():
            error = ((result.double() - exact).abs() / scale).max().item()
            yield Finding(f"kernels/product_error/{inner}/{who}", error, "", "largest, of sum |x| |w|")
