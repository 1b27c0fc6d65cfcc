"""Each Triton kernel alone, at the sizes of the paper's MNIST model. A share of the copy ceiling counts the bytes that
the kernel must read and write.
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F

import scanline.kernels.step.fused_triton as step
from benchmarks.gpu.finding import Finding, microseconds
from scanline.kernels.attention import chunked
from scanline.kernels.attention.triton import causal_linear_attention
from scanline.kernels.mixture.triton import sample
from scanline.kernels.triton.embedding import embed
from scanline.kernels.triton.linear import NARROW, WIDE, Halves, linear
from scanline.model.backends.slots import SlotPool
from scanline.model.config import ModelConfig


def copy_ceiling(elements: int, device: str) -> Finding:
    source = torch.ones(elements, device=device)
    target = torch.empty_like(source)
    time = microseconds(lambda: target.copy_(source))
    return Finding("copy, read + written", 8 * elements / time / 1e6, "TB/s")


def product_ceilings(side: int, device: str) -> Iterator[Finding]:
    for dtype, tf32 in ((torch.float32, False), (torch.float32, True), (torch.float16, False)):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        x, y = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
        time = microseconds(lambda x=x, y=y: x @ y, 3)
        name = "TF32" if tf32 else str(dtype).removeprefix("torch.")
        yield Finding(f"torch's product {side}^3, {name}", 2 * side**3 / time / 1e6, "TFLOP/s")
    torch.backends.cuda.matmul.allow_tf32 = False


def steps(config: ModelConfig, batch: int, copied: float, device: str, sweep: bool) -> Iterator[Finding]:
    """The recurrent step of one layer, in other launch shapes too if `sweep`; `copied` is the ceiling in TB/s."""
    heads, c, m = config.heads, config.key_width, config.value_width
    projected = torch.randn(batch, heads * (2 * c + m), device=device)
    rows, y = torch.randperm(batch, device=device), torch.empty(batch, heads * m, device=device)
    z = torch.ones(batch, heads, c, device=device)
    usual = step.ELEMENTS, step.WARPS
    shapes = [(e, w) for e in (1024, 2048, 4096, 8192) for w in (1, 2, 4, 8)] if sweep else []
    for state_dtype in (torch.float32, torch.float16):
        s = torch.ones(batch, heads, c, m, device=device, dtype=state_dtype)
        moved = 2 * s.nbytes + 2 * z.nbytes + projected.nbytes + y.nbytes
        for elements, warps in [usual, *shapes]:
            step.ELEMENTS, step.WARPS = elements, warps
            time = microseconds(lambda s=s: step.fused_recurrent_step(projected, s, z, rows, y=y))
            what = f"recurrent step, {batch} rows, {str(state_dtype).removeprefix('torch.')}"
            if (elements, warps) != usual:
                what += f", {elements} elements x {warps} warps"
            yield Finding(what, time, "us", moved / time / 1e6 / copied, "of the copy")
    step.ELEMENTS, step.WARPS = usual


def products(config: ModelConfig, batches: list[int], device: str) -> Iterator[Finding]:
    """The four products of a layer with what is fused into them, in both launch shapes, and torch's product alone."""
    width, keys, hidden = config.model_width, config.heads * config.key_width, config.feed_forward
    layer = {
        "query, key, value": (width, 2 * keys + width, True, "none", False),
        "attention out": (width, width, False, "none", True),
        "feed-forward in": (width, hidden, True, config.activation, False),
        "feed-forward out": (hidden, width, False, "none", True),
    }
    for batch in batches:
        for name, (inner, outer, normed, activation, residual) in layer.items():
            x, weight = torch.randn(batch, inner, device=device), torch.randn(outer, inner, device=device).half() / 16
            bias, out = torch.zeros(outer, device=device), torch.zeros(batch, outer, device=device)
            norm = (torch.ones(inner, device=device), torch.zeros(inner, device=device)) if normed else None
            halves, wide = Halves.of(weight.float()), weight.float()
            flop = 2 * batch * inner * outer
            for shape_name, shape in (("wide", WIDE), ("narrow", NARROW)):
                time = microseconds(
                    lambda x=x, h=halves, b=bias, o=out, n=norm, a=activation, r=out if residual else None, s=shape: (
                        linear(x, h, b, o, n, a, r, s)
                    )
                )
                note = f"{flop / time / 1e6:.1f} TFLOP/s"
                yield Finding(f"{name}, {batch} rows, {shape_name}", time, "us", None, note)
            time = microseconds(lambda x=x, w=wide: F.linear(x, w))
            yield Finding(
                f"{name}, {batch} rows, torch float32 alone", time, "us", None, f"{flop / time / 1e6:.1f} TFLOP/s"
            )


def ends(config: ModelConfig, batches: list[int], device: str) -> Iterator[Finding]:
    """The embedding before the layers and the sampling after them."""
    for batch in batches:
        slots = SlotPool.empty(config, batch, device)
        slots.state.position.zero_()
        rows = torch.arange(batch, device=device)
        parameters = torch.randn(batch, 3 * config.components, device=device)
        start, place = torch.zeros_like(rows), slots.state.position

        def draw(slots: SlotPool = slots, rows: torch.Tensor = rows, parameters: torch.Tensor = parameters) -> None:
            sample(
                parameters, rows, slots.images, slots.known, slots.bits, slots.temperature, slots.seed, slots.index,
                slots.state.position, config.scale,
            )  # fmt: skip

        time = microseconds(draw)
        place.copy_(start)
        yield Finding(f"sampling, {batch} rows", time, "us")
        values = torch.randn(len(config.offsets) * 257, config.model_width, device=device)
        places = torch.randn(config.bytes, config.model_width, device=device)
        x, live = torch.empty(batch, config.model_width, device=device), torch.empty_like(rows)
        offsets = torch.tensor(config.offsets, device=device)

        def gather(slots=slots, rows=rows, offsets=offsets, values=values, places=places, x=x, live=live) -> None:
            embed(rows, slots.images, slots.state.position, offsets, values, places, x, live)

        yield Finding(f"embedding, {batch} rows", microseconds(gather), "us")


def attention(config: ModelConfig, batch: int, length: int, device: str, on_gpu: bool) -> Iterator[Finding]:
    """Forward, and forward + backward, by Triton and by torch's chunks."""
    for dtype in (torch.bfloat16, torch.float32) if on_gpu else (torch.float32,):
        shape = (batch, config.heads, length)
        q, k = (torch.rand(*shape, config.key_width, device=device, dtype=dtype) for _ in range(2))
        v = torch.randn(*shape, config.value_width, device=device, dtype=dtype)
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        for name, attend in (("Triton", causal_linear_attention), ("torch", chunked.causal_linear_attention)):
            what = f"attention {batch} x {length}, {str(dtype).removeprefix('torch.')}, {name}"
            yield Finding(f"{what}, forward", microseconds(lambda attend=attend, a=(q, k, v): attend(*a), 3), "us")

            def both(attend=attend, leaves=leaves) -> None:
                torch.autograd.grad(attend(*leaves)[0].sum(), leaves)

            yield Finding(f"{what}, forward + backward", microseconds(both, 3), "us")
