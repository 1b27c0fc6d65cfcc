"""Looks up in Triton's cache what a server on a GPU of one compute capability would launch for a
shipped model, and fails where a kernel is not there.

    TRITON_CACHE_DIR=... python -m tests.support.kernels.kernel_lookups 90 mnist-small

Launches come from the sequence of a step as the backend on such a GPU runs it, chained and not;
they are looked up by Triton itself, under the keys that it computes for a launch, and none is made.
"""

import sys

import torch
from triton import knobs
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from scanline.model import zoo
from scanline.model.backends.cuda_step import Buffers, KernelSequence
from scanline.model.backends.slots import SlotPool
from scanline.model.base.precision import DEFERRED
from scanline.model.formats.checkpoint import load_model
from tests.support.kernels.compiled_kernels import Driver  # before any kernel

found = []
missing = []
look_up_or_run = JITFunction.run


def look_up(self, *args, grid, warmup, **options):
    look_up_or_run(self, *args, grid=grid, warmup=True, **options)


def listener(*, src, cache_hit, **_):
    (found if cache_hit else missing).append(src.name)


def main(capability, name):
    driver.set_active(Driver(capability))
    JITFunction.run = look_up
    knobs.compilation.listener = listener
    model = load_model(zoo.find(name))
    for chained in (True, False) if capability >= 90 else (False,):
        kernels = KernelSequence(model, chained)
        for dtype in (torch.float32, torch.bfloat16):
            slots = SlotPool.empty(model.config, 3, state_dtype=dtype, deferred=DEFERRED)
            for batch in (1, 64, 1024, 4096):
                kernels.run(slots, Buffers.of(model.config, batch, torch.device("cpu")))
    print(f"{len(found)} found, {len(missing)} missing: {missing}")
    sys.exit(1 if missing or not found else 0)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
