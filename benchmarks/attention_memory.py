"""What training pays for causal linear attention: peak memory and time of forward + backward as N grows.

    python benchmarks/attention_memory.py

One image, H heads of C = M = 32, float32. Peak memory is everything that the call needs beside what was there:
phi(q), phi(k) and v, their gradients, outputs, what the forward pass keeps for the backward one, and scratch. It is
taken twice: "tensors" counts the bytes of all tensors alive at once, exactly; "process" is what the operating system
saw, in a fresh process for each N. A position's share of the peak is flat where memory is linear in N, and
"grows as N^1.00" says it in one number. "naive" is autograd through the reference, the literal loop, which keeps an
[H, C, M] state for each position (and autograd's records of every small operation, which are no tensors). "Of the
copy rate" is the traffic that no implementation can avoid (every input, output and gradient once) over the memory
rate measured in this run.

Linux only: the process's peak is read from /proc.
"""

import argparse
import math
import os
import weakref
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from scanline.kernels.attention import causal_linear_attention, reference
from scanline.kernels.feature_maps import elu_plus_one
from scanline.model.bench.ceilings import copy_rate
from scanline.model.bench.machine import durations, print_json

HEADS, WIDTH = 8, 32
WAYS: dict[str, Callable[..., tuple[torch.Tensor, ...]]] = {
    "chunked": causal_linear_attention,
    "naive": reference.causal_linear_attention,
}
LEAST_TRAFFIC = 4 * HEADS * WIDTH * (4 + 4 + 3)  # bytes a position: forward q k v y, backward q k v g, three gradients
BOUND = 1e-4  # of the largest value


@dataclass(frozen=True)
class Peak:
    """Bytes at once, of forward + backward at one length."""

    way: str
    length: int
    tensors: int
    process: int


class Alive(TorchDispatchMode):
    """Counts the bytes of the tensors made under it that are alive, and the most there ever were."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.seen: dict[int, weakref.ref[Any]] = {}

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for tensor in tree_iter(result):
            if isinstance(tensor, torch.Tensor):
                self._count(tensor.untyped_storage())
        return result

    def _count(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self.seen:
            return  # a view, or the same memory changed in place

        def forget(_: Any) -> None:
            del self.seen[key]
            self.now -= size

        self.seen[key] = weakref.ref(storage, forget)
        self.now += size
        self.peak = max(self.peak, self.now)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[1024, 2048, 4096, 8192, 16384])
    parser.add_argument("--naive-lengths", type=int, nargs="+", default=[128, 256, 512, 1024])
    parser.add_argument("--seconds", type=float, default=2.0, help="measuring time for each length")
    options = parser.parse_args()

    errors = check(min(options.lengths))
    copied = copy_rate()
    table = Table(title=f"forward + backward, 1 image x {HEADS} heads x {WIDTH}", title_style="")
    for column in ("way", "N", "tensors MB", "process MB", "process bytes/position", "ms", "of the copy rate"):
        table.add_column(column, justify="right")
    results = []
    for way, lengths in (("chunked", options.lengths), ("naive", options.naive_lengths)):
        for length in lengths:
            found = peak(way, length)
            seconds = float(np.median(durations(partial(run, way, *inputs(length)), options.seconds)))
            fraction = LEAST_TRAFFIC * length / seconds / copied
            row = [way, f"{length}", f"{found.tensors / 1e6:.1f}", f"{found.process / 1e6:.1f}"]
            table.add_row(*row, f"{found.process / length:,.0f}", f"{1e3 * seconds:.1f}", f"{fraction:.1%}")
            results.append(asdict(found) | {"seconds": seconds, "of_copy_rate": fraction})
        table.add_section()
    Console(width=110).print(table)
    growth = {kind: exponent(results, kind) for kind in ("tensors", "process")}
    print(f"chunked grows as N^{growth['tensors']:.3f} in tensors, N^{growth['process']:.3f} in the process")
    print(f"checked at N = {min(options.lengths)}: " + ", ".join(f"{k} within {e:.0e}" for k, e in errors.items()))
    print_json(
        "attention_memory",
        vars(options),
        ceilings={"copy_bytes_per_second": copied},
        growth_exponents=growth,
        largest_errors=errors,
        results=results,
    )


def inputs(length: int) -> list[torch.Tensor]:
    """phi(q), phi(k), v and the gradient of y, [1, H, N, 32] each."""
    generator = torch.Generator().manual_seed(length)
    q, k, v, g = (torch.randn(1, HEADS, length, WIDTH, generator=generator) for _ in range(4))
    return [elu_plus_one(q), elu_plus_one(k), v, g]


def run(way: str, *tensors: torch.Tensor) -> list[torch.Tensor]:
    """y and the gradients of phi(q), phi(k) and v."""
    *given, g = tensors
    leaves = [tensor.detach().requires_grad_() for tensor in given]
    y = WAYS[way](*leaves)[0]
    return [y.detach(), *torch.autograd.grad(y, leaves, g)]


def check(length: int) -> dict[str, float]:
    """Largest errors against float64 autograd of the reference, each as a fraction of the largest value there."""
    tensors = inputs(length)
    law = run("naive", *(tensor.double() for tensor in tensors))
    errors = {}
    for name, expected, result in zip(("y", "dq", "dk", "dv"), law, run("chunked", *tensors), strict=True):
        errors[name] = ((result.double() - expected).abs().max() / expected.abs().max()).item()
        assert errors[name] <= BOUND, f"{name} is off by {errors[name]} at N = {length}"
    return errors


def peak(way: str, length: int) -> Peak:
    """Measured in a process of its own, whose allocator hands every large tensor back when it is freed: otherwise
    what an earlier length left there would be used again, unseen."""
    os.environ["MALLOC_MMAP_THRESHOLD_"] = os.environ["MALLOC_TRIM_THRESHOLD_"] = "16384"
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        return fresh.submit(measure, way, length).result()


def measure(way: str, length: int) -> Peak:
    run(way, *inputs(64))  # what torch loads and starts at first use is not the operator's
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew; ru_maxrss would keep the parent's
    before = status("VmRSS")
    tensors = inputs(length)
    results = run(way, *tensors)
    process = status("VmHWM") - before
    del results, tensors
    with Alive() as alive:
        run(way, *inputs(length))
    return Peak(way, length, alive.peak, process)


def status(field: str) -> int:
    """Bytes, from a line "VmRSS:    1234 kB" of the kernel's report on this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def exponent(results: list[dict[str, Any]], kind: str) -> float:
    """p of peak ~ N^p, from the shortest to the longest sequence of the chunked way."""
    first, *_, last = sorted((r for r in results if r["way"] == "chunked"), key=lambda r: r["length"])
    return math.log(last[kind] / first[kind]) / math.log(last["length"] / first["length"])


if __name__ == "__main__":
    main()
