"""Compiles every Triton kernel in the shapes that users run, for GPUs that are not there: A100
(sm_80), RTX 30 and A10 (sm_86), Orin (sm_87), RTX 40 and L4 (sm_89), H100 and H200 (sm_90), B200
(sm_100), B300 (sm_103), Thor (sm_110), RTX 50 (sm_120), GB10 (sm_121).

    python -m tests.kernels.triton.compile [--capability 90] [--only quick]

Prints a line for each compiled variant; fails where one does not compile, spills registers, has
serialised products, asks for more shared memory than there is, copies what the previous kernel
may still write before it waits, or where one launch for many positions adds in another order than
one for each. With another Triton, installed by `pip install --no-deps --target DIR
triton==3.6.0`, put DIR first into PYTHONPATH.
"""

import argparse
import re
import sys
import time
from dataclasses import replace
from unittest import mock

import torch
import triton
from triton.runtime.jit import JITFunction

from benchmarks.compile_kernels import _kinds
from scanline.kernels.ahead import triton as ahead_triton
from scanline.kernels.ahead.reference import Images, Plan
from scanline.kernels.attention.training_triton import causal_attention_of_projection
from scanline.kernels.attention.triton import causal_linear_attention
from scanline.kernels.causal_conv import BEYOND, NEIGHBOURS
from scanline.kernels.causal_conv.training_triton import normed_causal_conv
from scanline.kernels.causal_conv.triton import causal_conv, causal_conv_sequence
from scanline.kernels.step.ahead_triton import add_rows, fused_recurrent_rows
from scanline.kernels.step.fused_triton import fused_recurrent_step
from scanline.kernels.step.ordered_triton import ordered_recurrence
from scanline.kernels.step.sequence_triton import fused_recurrent_sequence
from scanline.kernels.triton.copy_slots import copy_slots
from scanline.kernels.triton.known_rows import write_rows
from scanline.kernels.triton.linear import WIDE, Halves, linear
from scanline.kernels.triton.moments import blocks, row_moments
from scanline.kernels.triton.sampling import draw_uniforms
from scanline.model.backends.cuda import CudaOptions
from scanline.model.backends.cuda_step import Buffers, KernelSequence, Rows
from scanline.model.backends.slots import SlotPool
from scanline.model.base.precision import DEFERRED
from scanline.model.base.state import State
from scanline.model.network.transformer import Transformer
from scanline.model.training.presets import PRESETS

# before any kernel
from tests.support.kernels.compiled_kernels import SHARED, compiling, launched
from tests.support.kernels.ptx import inexact
from tests.support.kernels.ttgir import sums

# as the authors' checkpoints are
PLAIN = {"norm": "post", "activation": "relu", "embedding_join": "concat"}
# name: configuration, and the type that its weights are stored in
MODELS = {
    "mnist-small": (PRESETS["mnist-small"].model, torch.float16),
    "cifar10-small": (PRESETS["cifar10-small"].model, torch.float16),
    "mnist": (PRESETS["mnist"].model, torch.float16),
    "mnist float32": (PRESETS["mnist"].model, torch.float32),
    "cifar10": (PRESETS["cifar10"].model, torch.float16),
    "authors": (replace(PRESETS["mnist"].model, **PLAIN), torch.float32),
    "causal_conv": (replace(PRESETS["cifar10-small"].model, causal_conv=True), torch.float16),
}
BATCHES = (1, 64, 4096)  # each shape of program is met
STATES = (torch.float32, torch.float16, torch.bfloat16)
# the newest Triton that was tried and whose assembler does not know the card
TOO_NEW = {110: (3, 6)}
SMALL = [capability for capability, shared in SHARED.items() if shared == min(SHARED.values())]


def step(config, stored, batch, capability):
    """Launches one step of a batch, with classes and without; each launch differs from the others
    of its kernel in one layer of a kind."""
    for classes in ((), (("7", "seven"),)):
        config = replace(config, layers=1, blocks=min(1, config.blocks), classes=classes)
        model = Transformer(config).requires_grad_(False)
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter).to(stored))
        kernels = KernelSequence(model, chained=capability >= 90)
        buffers = Buffers.of(config, batch, torch.device("cpu"))
        kernels.run(SlotPool.empty(config, 2, deferred=DEFERRED), buffers)
        codes(kernels, buffers)


def int8(config, batch, capability):
    """Launches a step of a batch, and what reads known bytes, with int8 weights: they have the bits
    of the CPU kernel, so no operation of theirs may be another than its own."""
    config = replace(config, layers=1, blocks=min(1, config.blocks), classes=(("7", "seven"),))
    chained = capability >= 90
    kernels = KernelSequence(Transformer(config).requires_grad_(False), chained, ordered=True)
    buffers = Buffers.of(config, batch, torch.device("cpu"))
    slots = SlotPool.empty(config, 2, deferred=DEFERRED)
    began = len(launched)
    kernels.run(slots, buffers)
    two = torch.arange(2)
    state = slots.state
    arrays = state.s[0], state.z[0], state.deferred[0], two, two
    ordered_recurrence(buffers.projected, *arrays, 1, buffers.attended, two)
    for kernel in launched[began:]:
        assert inexact(kernel.asm["ptx"]) == [], kernel


def codes(kernels, buffers):
    """Launches what a step does with codes, without, and painting ahead. Images that are drawn must
    have the same bits beside decoded ones, and in a pass of several of their steps, so the layouts
    that decide the order of sums must be the same; and nothing may change the one product of the
    quantised CDF that is no whole number."""
    slots = SlotPool.empty(kernels.config, 2, deferred=DEFERRED)
    size = kernels.config.step_bytes
    began = len(launched)
    kernels.sample(slots, buffers)
    kernels.decode(slots, buffers)
    kernels.sample(slots, buffers, code_range=slots.code_range)
    values = torch.zeros(len(buffers.slots), size, dtype=torch.uint8)
    kernels.write_intervals(values, buffers, torch.zeros(*values.shape, 2, dtype=torch.int32))
    at = torch.zeros(len(buffers.slots), dtype=torch.int64)
    bits, known_bits = torch.zeros(2, len(at), dtype=torch.float64)
    costs = torch.zeros(len(at), size, dtype=torch.float64)
    kernels.sample(slots, buffers, rows=Rows(at, bits, known_bits, costs))
    drawn = [sums(kernel.asm["ttgir"]) for kernel in launched[began:] if kernel.name == "_sample"]
    assert len(drawn) == 3
    assert drawn[0] == drawn[1] == drawn[2] != []
    decoding = [
        kernel.asm["ptx"]
        for kernel in launched[began:]
        if kernel.name in ("_categorical", "_pixels")
    ]
    assert len(decoding) == 2
    assert not any("fma.rn" in ptx or "ftz" in ptx for ptx in decoding)


def states(capability, dtypes=STATES):
    """Launches the recurrent step with heads of 32, as all shipped
    models have, and of other widths.
    """
    for heads, width in ((5, 32), (6, 32), (8, 32), (3, 33), (4, 64), (2, 128)):
        for dtype in dtypes:
            recur(heads, width, dtype, capability >= 90)


def recur(heads, width, dtype=torch.float32, chained=False):
    """Launches a step of rows ahead, alone and in a sequence, of heads that are as many keys as
    values wide."""
    two = torch.arange(2)
    deferred = torch.zeros(2, DEFERRED, heads * 2 * width)
    arrays = (
        torch.zeros(2, heads, width, width, dtype=dtype),
        torch.zeros(2, heads, width),
        deferred,
    )
    projected = torch.zeros(2, 3 * heads * width)
    kept = torch.zeros(1, 2, heads * 2 * width)
    fused_recurrent_rows(projected, *arrays, two, two, two, two, two, kept[0])
    add_rows(kept, *(array[None] for array in arrays), two, two, two, two, two)
    for at_once in (True, False) if width <= 64 else (False,):  # heads of 128 would spill
        fused_recurrent_step(projected, *arrays, two, two, chained=chained, at_once=at_once)
    fused_recurrent_sequence(projected, *arrays, two, two, two)


def orders(*cases):
    """Launches steps one by one and at once; the layouts that decide the order of their
    sums must be the same, and no product may be contracted with a sum. Offsets must be 64
    bits wide, since states may have 2^31 numbers and more. A head of 32 is one warp, of
    which an SM has registers for 28."""
    for heads, width, dtype in cases:
        recur(heads, width, dtype)
        rows, added, at_once, step, sequence = (kernel.asm for kernel in launched[-5:])
        assert len(sums(step["ttgir"])) == 2
        assert sums(step["ttgir"]) == sums(at_once["ttgir"]) == sums(sequence["ttgir"])
        assert sums(step["ttgir"]) == sums(rows["ttgir"])
        both_ahead = rows, added
        assert not any(
            "fma.rn" in kernel["ptx"] for kernel in (*both_ahead, at_once, step, sequence)
        )
        offsets = re.findall(
            r"addptr %(?:s|z|deferred|arg[123]), .*, (\w+)", step["ttir"] + sequence["ttir"]
        )
        assert offsets == ["i64"] * 7
        if width == 32:
            assert launched[-2].registers <= (80 if launched[-2].capability == 90 else 112)
            assert all("warpsPerCTA = [1, 1" in layout for _, layout in sums(step["ttgir"]))


def copies():
    """Launches copies of whole slots of images and their states, at the sizes of all presets."""
    slots = torch.arange(2)
    for config in (preset.model for preset in PRESETS.values()):
        for dtype in STATES:
            state = State.zeros(config, 3, state_dtype=dtype, deferred=DEFERRED)
            for array in (state.s, state.z, state.deferred):
                copy_slots(array, slots, slots, layered=True)
        copy_slots(torch.zeros(3, config.bytes, dtype=torch.uint8), slots, slots)
    copy_slots(torch.zeros(3, dtype=torch.float64), slots, slots)
    for first in (0, 1):  # a place that is not aligned needs no code of its own
        draw_uniforms(slots[first:], slots[first:], slots[first:])


def known_rows():
    """Launches what a pass over known bytes begins with, of grey pixels and of colour."""
    two = torch.arange(2)
    for size in (1, 3):
        images, values = (torch.zeros(2, count * size, dtype=torch.uint8) for count in (784, 1))
        write_rows(
            two[:1],
            two,
            two,
            images,
            *(two.clone() for _ in range(5)),
            values,
        )


def ahead(batches=(1, 64, 4096)):
    """Launches what plans a pass of several steps of each image and what accepts it, of grey pixels
    and of colour.
    """
    for batch in batches:
        for size in (1, 3):
            rows = 4 * batch
            pool = SlotPool.empty(replace(PRESETS["mnist"].model, channels=size), 2)
            images = Images(
                pool.images,
                pool.known,
                pool.state.position,
                pool.bits,
                pool.known_bits,
                pool.partner,
                pool.code_range,
                pool.images.clone(),
                pool.state.position.clone(),
            )
            plan = Plan.of(batch, rows, 28, size, "cpu")
            for full in (False, True):
                ahead_triton.plan(plan, images, 28, full)
            bits = torch.zeros(rows, dtype=torch.float64)
            costs = torch.zeros(rows, size, dtype=torch.float64)
            ahead_triton.accept(plan, images, costs, bits, torch.zeros(4, dtype=torch.int64))


def attention(lengths=(100, 1024)):
    for dtype, widths in ((torch.float32, (32, 64)), (torch.bfloat16, (32, 64))):
        for width in widths:
            for length in lengths:
                leaves = [
                    torch.rand(1, 2, length, width, dtype=dtype).requires_grad_() for _ in range(3)
                ]
                causal_linear_attention(*leaves)[0].sum().backward()


def convolutions(capability, widths=(192, 1024)):
    """Launches the causal convolution of known pixels and of one pixel of each image."""
    two = torch.arange(2)
    for width in widths:
        x, conv_weight, conv_state = (
            torch.zeros(rows, width) for rows in (2, NEIGHBOURS, 2 * (28 + BEYOND))
        )
        norm = (torch.ones(width), torch.zeros(width))
        moments = torch.zeros(2, blocks(width), 2)
        conv_state = conv_state.view(2, -1, width)
        for launch in (causal_conv, causal_conv_sequence):
            launch(
                x, conv_weight, two, two, conv_state, 1, x.clone(), norm, moments, capability >= 90
            )
            launch(x, conv_weight, two, two, conv_state, 1, x.clone(), chained=capability >= 90)


def training(depths=(160, 192, 256, 512)):
    """Launches norm and causal convolution of whole images, attention of
    projections, and their gradients.
    """
    for weight in (None, torch.ones(1, 416)):
        projected = torch.zeros(1, 416, 3 * 5 * 32, dtype=torch.bfloat16, requires_grad=True)
        causal_attention_of_projection(projected, 5, 32, weight).sum().backward()
    for depth in depths:
        for dtype in (torch.float32, torch.bfloat16):
            x = torch.zeros(1, 1024, depth, requires_grad=True)
            norm = torch.ones(depth)
            normed_causal_conv(
                x, norm, norm, torch.zeros(NEIGHBOURS, depth), 32, dtype
            ).sum().backward()


def prefixes():
    """Launches attention over prefixes of images, of whichever length: each kernel
    is compiled once for all of them.
    """
    for length in (1, 15, 16, 392, 784):
        causal_linear_attention(*(torch.rand(1, 8, length, 32) for _ in range(3)))


def quick(capability):
    """Launches a kernel of each kind, at the paper's sizes."""
    chained = capability >= 90
    x = torch.zeros(4096, 256)
    out = torch.zeros(4096, 1024)
    bias = torch.zeros(1024)
    weight = Halves.of(torch.randn(1024, 256).half().float())
    norm = (torch.ones(256), torch.zeros(256))
    linear(
        x,
        weight,
        bias,
        out,
        norm,
        "gelu",
        None,
        None,
        chained,
        torch.zeros(4096, blocks(256), 2),
        None,
    )
    row_moments(torch.zeros(1, 256), chained=chained)
    recur(8, 32, chained=chained)
    copy_slots(torch.zeros(2, 8, 32, 32), torch.arange(2), torch.arange(2))
    known_rows()
    ahead((64,))
    orders((8, 32, torch.float32))
    prefixes()
    convolutions(capability, (256,))
    training((160,))
    sizes(capability)
    for name in ("mnist-small", "cifar10-small"):
        config = replace(PRESETS[name].model, layers=1, blocks=0)
        kernels = KernelSequence(Transformer(config).requires_grad_(False), chained)
        codes(kernels, Buffers.of(config, 1, torch.device("cpu")))


# Known spills in bytes: a few registers of kernels with gradients, which differ between Tritons;
# attention's float32 heads of 64 where the tensor cores are not an H100's or a B200's
GRADIENTS = ("walk_", "_norm_conv", "_segment_sums")  # kernels that training launches
FEW_BYTES = 72
WIDE_BYTES = 656
SMALL_CARD_BYTES = 120  # of any kernel, on cards with the least shared memory


def known(kernel):
    """Whether the only fault is a known spill. No preset and no shipped model
    has heads of 64 float32 numbers.
    """
    has_gradients = kernel.name.startswith(GRADIENTS)
    is_wide = kernel.capability not in (90, 100) and {"v=float32", "value_width=64"} <= {
        *kernel.constants.split(", ")
    }
    few = FEW_BYTES if has_gradients else 0
    small = SMALL_CARD_BYTES if kernel.capability in SMALL else 0
    return len(kernel.faults) == 1 and 0 < kernel.spilled <= max(
        few, small, WIDE_BYTES * (is_wide and has_gradients)
    )


def largest_product():
    """Launches the product that needs the most shared memory: a wide one,
    with float32 weights and a norm.
    """
    weight = Halves.of(torch.randn(1024, 256))
    norm = (torch.ones(256), torch.zeros(256))
    x = torch.zeros(1, 256)
    out = torch.zeros(1, 1024)
    moments = torch.zeros(1, blocks(256), 2)
    linear(
        x,
        weight,
        torch.zeros(1024),
        out,
        norm,
        "gelu",
        tiling=WIDE,
        moments=moments,
    )


def sizes(capability):
    """Asserts that no graph needs a kernel that those of one image
    and of the most images do not have.
    """
    options = CudaOptions()
    found = set[object]()

    def record(function, *args, grid, warmup, **how):
        found.add((function.__name__, _kinds(function, args), tuple(how.items())))

    for name in ("mnist-small", "cifar10-small"):
        config = replace(PRESETS[name].model, layers=1)
        kernels = KernelSequence(Transformer(config).requires_grad_(False), capability >= 90)
        kinds = {}
        with mock.patch.object(JITFunction, "run", record):
            for size in options.sizes:
                kernels.run(
                    SlotPool.empty(config, 2, deferred=DEFERRED),
                    Buffers.of(config, size, torch.device("cpu")),
                )
                kinds[size] = {*found}
                found.clear()
        for most in options.sizes:
            fewer = set[object]().union(*(kinds[size] for size in options.sizes if size <= most))
            assert fewer <= kinds[1] | kinds[most]


def compile_all(capability, only):
    parts = {
        f"{name} {batch}": lambda c=config, s=stored, b=batch: step(c, s, b, capability)
        for name, (config, stored) in MODELS.items()
        for batch in BATCHES
    }
    parts |= {
        f"int8 {name} {batch}": lambda c=config, b=batch: int8(c, b, capability)
        for name, (config, _) in MODELS.items()
        for batch in (1, 4096)
        if name in ("mnist-small", "causal_conv", "authors")
    }
    parts |= {
        "states": lambda: states(capability),
        "copies": copies,
        "rows": known_rows,
        "ahead": ahead,
        "attention": attention,
    }
    parts |= {"causal_conv": lambda: convolutions(capability), "training": training}
    parts |= {"quick": largest_product if capability in SMALL else lambda: quick(capability)}
    parts |= {
        "orders": lambda: orders(
            (8, 32, torch.float32), (8, 32, torch.float16), (3, 33, torch.float32)
        )
    }
    done = 0
    with compiling(capability) as found:
        for name, part in parts.items():
            if only and not any(chosen in name for chosen in only):
                continue
            start = time.perf_counter()
            part()
            print(
                f"{name}, {time.perf_counter() - start:.0f} s",
                *found[done:],
                sep="\n    ",
                flush=True,
            )
            done = len(found)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--capability", type=int, nargs="+", choices=SHARED, default=list(SHARED))
    parser.add_argument(
        "--only", nargs="+", default=[], help="parts whose name contains one of these"
    )
    options = parser.parse_args()
    print(f"Triton {triton.__version__}", flush=True)
    version = tuple(int(number) for number in triton.__version__.split(".")[:2])
    found = []
    for capability in options.capability:
        if version <= TOO_NEW.get(capability, (0, 0)):
            print(f"sm_{capability} needs a newer Triton")
        else:
            found += compile_all(capability, options.only)
    faulty = [kernel for kernel in found if kernel.faults and not known(kernel)]
    print(f"{len(found)} variants, {len(faulty)} with faults", *faulty, sep="\n    ")
    sys.exit(1 if faulty or not found else 0)


if __name__ == "__main__":
    main()
