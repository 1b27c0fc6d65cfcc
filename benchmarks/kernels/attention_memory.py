"""What training pays for causal linear attention: peak memory and time of forward + backward as N grows.

    python -m benchmarks.kernels.attention_memory

One image, 8 heads of C = M = 32, float32. Peak memory is everything that the call adds to the process: phi(q), phi(k)
and v, their gradients, outputs, what the forward pass keeps for the backward pass, and scratch. Bytes for each position
are constant if memory is linear in N; the growth exponent p of peak ~ N^p says the same in one number. "naive" is
autograd through the reference, the literal loop, which keeps an [H, C, M] state for each position, and autograd's
records of every operation.

Linux only: the peak of a process is read from /proc.
"""

import argparse
import math
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from scanline.kernels.attention import causal_linear_attention, reference
from scanline.kernels.feature_maps import elu_plus_one
from scanline.model.bench.machine import print_json
from scanline.model.bench.measure import durations

HEADS, WIDTH = 8, 32
IMPLEMENTATIONS: dict[str, Callable[..., tuple[torch.Tensor, ...]]] = {
    "chunked": causal_linear_attention,
    "naive": reference.causal_linear_attention,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[1024, 2048, 4096, 8192, 16384])
    parser.add_argument("--naive-lengths", type=int, nargs="+", default=[128, 256, 512, 1024])
    parser.add_argument("--seconds", type=float, default=2.0, help="measuring time for each length")
    options = parser.parse_args()

    table = Table(title=f"forward + backward, 1 image x {HEADS} heads x {WIDTH}", title_style="")
    for column in ("implementation", "N", "peak MB", "bytes/position", "ms"):
        table.add_column(column, justify="right")
    results = []
    for name, lengths in (("chunked", options.lengths), ("naive", options.naive_lengths)):
        for length in lengths:
            peak = peak_bytes(name, length)
            seconds = float(np.median(durations(partial(run, name, *inputs(length)), options.seconds)))
            cells = [name, f"{length}", f"{peak / 1e6:.1f}", f"{peak / length:,.0f}", f"{1e3 * seconds:.1f}"]
            table.add_row(*cells)
            results.append({"implementation": name, "length": length, "peak_bytes": peak, "seconds": seconds})
        table.add_section()
    Console(width=110).print(table)
    chunked = [result for result in results if result["implementation"] == "chunked"]
    growth = exponent({result["length"]: result["peak_bytes"] for result in chunked})
    print(f"chunked: peak ~ N^{growth:.3f}")
    print_json("attention_memory", vars(options), growth_exponent=growth, results=results)


def inputs(length: int) -> list[torch.Tensor]:
    """phi(q), phi(k), v and the gradient of y, [1, H, N, 32] each."""
    generator = torch.Generator().manual_seed(length)
    q, k, v, g = (torch.randn(1, HEADS, length, WIDTH, generator=generator) for _ in range(4))
    return [elu_plus_one(q), elu_plus_one(k), v, g]


def run(name: str, *tensors: torch.Tensor) -> list[torch.Tensor]:
    """y and the gradients of phi(q), phi(k) and v."""
    *inputs, g = tensors
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    y = IMPLEMENTATIONS[name](*leaves)[0]
    return [y.detach(), *torch.autograd.grad(y, leaves, g)]


def peak_bytes(name: str, length: int) -> int:
    """Measures in a process of its own, whose allocator returns every large tensor to the system when it is freed.

    Otherwise memory that an earlier call freed would be used again and not be counted.
    """
    os.environ["MALLOC_MMAP_THRESHOLD_"] = os.environ["MALLOC_TRIM_THRESHOLD_"] = "16384"
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        return fresh.submit(measure_peak, name, length).result()


def measure_peak(name: str, length: int) -> int:
    run(name, *inputs(64))  # what torch loads at its first use does not belong to the operator
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak; ru_maxrss would keep the parent's
    before = status_bytes("VmRSS")
    results = run(name, *inputs(length))
    peak = status_bytes("VmHWM") - before
    del results
    return peak


def status_bytes(field: str) -> int:
    """A field of /proc/self/status, as in "VmRSS:    1234 kB"."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def exponent(peaks: dict[int, int]) -> float:
    """p of peak ~ N^p, from the shortest to the longest sequence."""
    first, last = min(peaks), max(peaks)
    return math.log(peaks[last] / peaks[first]) / math.log(last / first)


if __name__ == "__main__":
    main()
