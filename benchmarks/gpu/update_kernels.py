"""The kernels of an update of the weights, by the kind of work that they do.

The kinds are told by the names that torch's compiler, the libraries of products and our own kernels
have.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from benchmarks.gpu.results import Finding

LARGEST = 25  # kernels that are findings of their own
ATTENTION = ("walk_", "_attend", "_key_value_gradients", "_query_gradients", "_later_sums")
CONVOLUTION = ("_norm_conv", "_segment_sums")
# The compiler names a kernel after what it has fused, products among it; those that multiply are
# its templates.
PRODUCT = re.compile(r"gemm|nvjet|cutlass|cublas|^triton_tem_|^aten::(add)?mm$")
GELU_OR_COPY = re.compile(r"gelu|copy|memcpy", re.IGNORECASE)
NORM = re.compile(r"norm", re.IGNORECASE)  # a norm that copies its result is not a copy
OPTIMISER = re.compile(r"multi_tensor_apply|foreach|adam", re.IGNORECASE)
KINDS = ("products", "attention", "convolution", "gelu_and_copies", "optimiser", "rest")


def kind_of(kernel: str) -> str:
    """Return the kind of a kernel: one of KINDS."""
    if kernel.startswith(ATTENTION):
        return "attention"
    if kernel.startswith(CONVOLUTION):
        return "convolution"
    if PRODUCT.search(kernel):
        return "products"
    if OPTIMISER.search(kernel):
        return "optimiser"
    if GELU_OR_COPY.search(kernel) and not NORM.search(kernel):
        return "gelu_and_copies"
    return "rest"


def findings(
    what: str, microseconds: Mapping[str, Sequence[float]], updates: int
) -> Iterator[Finding]:
    """Yield milliseconds an update of each kind, then the largest kernels; of the launches of some
    updates."""
    kinds: dict[str, float] = defaultdict(float)
    launches: dict[str, float] = defaultdict(float)
    for kernel, times in microseconds.items():
        kinds[kind_of(kernel)] += sum(times) / updates
        launches[kind_of(kernel)] += len(times) / updates
    for kind in KINDS:
        note = f"in {launches[kind]:.1f} launches"
        yield Finding(f"{what}/{kind}", kinds[kind] / 1e3, "ms an update", note)
    largest = sorted(microseconds.items(), key=lambda item: -sum(item[1]))[:LARGEST]
    for number, (kernel, times) in enumerate(largest):
        note = f"{len(times) / updates:.1f} x {np.median(times):.1f} us"
        note += f", {kind_of(kernel)}: {kernel[:150]}"
        yield Finding(f"{what}/kernel_{number:02d}", sum(times) / updates, "us an update", note)
