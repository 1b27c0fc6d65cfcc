"""What this GPU can do: copies, matrix products, launches. All other parts are read against these."""

from collections.abc import Iterator

import torch

from benchmarks.gpu.results import Finding
from benchmarks.gpu.sizes import Sizes
from benchmarks.gpu.timing import microseconds, survived
from scanline.kernels.triton.layer_norm import layer_norm

IN_L2 = 1 << 21  # float32 numbers that are read and written: 16 MiB together, less than any L2 cache of these GPUs
LAUNCHES = 43  # of a step of the paper's MNIST model


def ceilings(sizes: Sizes) -> Iterator[Finding]:
    """Rates of torch's copy and products, and the time of a launch in a graph that does next to nothing."""
    yield Finding("ceilings/copy", copy_rate(sizes.copied, sizes), "TB/s", "read + written, beyond any cache")
    small = min(IN_L2, sizes.copied)
    yield Finding("ceilings/copy_in_l2", copy_rate(small, sizes), "TB/s", "read + written, 16 MiB together")
    for dtype, tf32 in ((torch.float32, False), (torch.float32, True), (torch.float16, False)):
        name = "tf32" if tf32 else str(dtype).removeprefix("torch.")
        yield Finding(f"ceilings/product/{name}", product_rate(dtype, tf32, sizes), "TFLOP/s", f"{sizes.side}^3")
    for chained in (False, True) if not sizes.dry else (False,):
        what = f"ceilings/launch/{'chained' if chained else 'unchained'}"
        try:
            yield Finding(what, launch_time(chained, sizes), "us", "in a graph, one row of LayerNorm")
        except Exception as error:
            yield Finding(what, None, note=survived(error))


def copy_rate(elements: int, sizes: Sizes) -> float:
    """TB/s, read + written, of a copy of so many float32 numbers."""
    source = torch.ones(elements, device=sizes.device)
    target = torch.empty_like(source)
    return 8 * elements / microseconds(lambda: target.copy_(source), sizes) / 1e6


def product_rate(dtype: torch.dtype, tf32: bool, sizes: Sizes) -> float:
    """TFLOP/s of torch's product of two large square matrices."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    try:
        x, y = (torch.randn(sizes.side, sizes.side, device=sizes.device, dtype=dtype) for _ in range(2))
        return 2 * sizes.side**3 / microseconds(lambda: x @ y, sizes, 3) / 1e6
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def launch_time(chained: bool, sizes: Sizes) -> float:
    """Microseconds of one launch after another of a kernel that changes one row."""
    x, weight, bias = (torch.ones(*shape, device=sizes.device) for shape in ((1, 256), (256,), (256,)))
    launches = 2 if sizes.dry else LAUNCHES
    return microseconds(lambda: layer_norm(x, weight, bias, chained), sizes, launches)
