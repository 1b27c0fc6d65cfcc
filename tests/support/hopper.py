"""Compiles every Triton kernel for Hopper, with or without a GPU: each launch is compiled and none is made.

    python -m tests.support.hopper

Prints a line for each; fails where one does not compile, or asks for more shared memory than there is.
"""

import os
from typing import Any

os.environ.pop("TRITON_INTERPRET", None)  # before any kernel is imported

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from scanline.kernels.attention.triton import causal_linear_attention
from scanline.kernels.step.fused_triton import fused_recurrent_step
from scanline.model.backends.cuda_step import Buffers, KernelSequence
from scanline.model.backends.slots import SlotPool
from scanline.model.network.transformer import Transformer
from tests.support import small_models

SHARED = 227 * 1024  # bytes that a program may have
compiled: set[str] = set()
compile_or_run = JITFunction.run


class Hopper:
    """The part of a driver that the compiler needs."""

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int = 0) -> int:
        return 0


def only_compile(self: JITFunction, *args: Any, grid: Any, warmup: bool, **options: Any) -> None:
    kernel = compile_or_run(self, *args, grid=grid, warmup=True, **options)
    if kernel.hash not in compiled:
        compiled.add(kernel.hash)
        print(f"{self.__name__}: {kernel.metadata.shared} bytes shared, {kernel.metadata.num_warps} warps", flush=True)
    assert kernel.metadata.shared <= SHARED


def main() -> None:
    driver.set_active(Hopper())
    JITFunction.run = only_compile
    paper = {"heads": 8, "key_width": 32, "value_width": 32, "feed_forward": 1024, "layers": 1, "components": 10}
    for changes in (
        {},
        {"norm": "post", "activation": "relu", "embedding_join": "concat"},
        {**small_models.VARIANTS["strokes"], "blocks": 1, "block_width": 512},
        small_models.VARIANTS["waves of pixels"],
    ):
        for weights in (torch.float32, torch.float16):
            model = Transformer(small_models.config(**paper, **changes)).requires_grad_(False)
            for parameter in model.parameters():
                parameter.copy_(parameter.to(weights))
            kernels, slots = KernelSequence(model, chained=True), SlotPool.empty(model.config, 2)
            for batch in (1, 4096):
                kernels.run(slots, Buffers.of(model.config, batch, torch.device("cpu")))
    for width, state_dtype in ((33, torch.float32), (64, torch.float16), (128, torch.bfloat16)):
        s, z = torch.zeros(2, 3, width, width, dtype=state_dtype), torch.zeros(2, 3, width)
        fused_recurrent_step(torch.zeros(2, 9 * width), s, z, torch.arange(2))
    for dtype in (torch.float32, torch.bfloat16):
        for width in (32, 128):
            leaves = [torch.rand(1, 2, 100, width, dtype=dtype).requires_grad_() for _ in range(3)]
            causal_linear_attention(*leaves)[0].sum().backward()


if __name__ == "__main__":
    main()
