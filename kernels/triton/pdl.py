"""Programmatic dependent launch (PDL, from Hopper on): in a chain of launches, a kernel
starts while the previous one still runs, may fetch what no kernel writes, such as
weights, and then waits for the rest.

A chained kernel must call `wait` before it reads anything that the previous kernel writes,
and before it writes anything that the previous kernel reads. After `wait` it behaves as if
the kernels had been launched in stream order. What was written two launches before may be
read at once: the kernel in between let this one start only after its own `wait`. The first
launch of a chain is an ordinary one.
"""

from typing import Any

import triton
import triton.language as tl


def options(chained: bool) -> dict[str, Any]:
    """Return the keyword arguments of a launch. Triton's interpreter does not know `launch_pdl`,
    and chains nothing."""
    # Without contraction to fused multiply-adds, elementwise arithmetic is
    # rounded as it is written, whatever the shape of the program and the version
    # of Triton (whose default changes in 3.10).
    fixed = {"enable_fp_fusion": False}
    return (
        {"chained": True, "launch_pdl": True, **fixed} if chained else {"chained": False, **fixed}
    )


@triton.jit
def wait(chained: tl.constexpr):
    """Wait until all launches before this one have ended, then let the next one start.

    In PTX, because Triton's own functions for it (tl.extra.cuda.gdc_wait) do not compile in
    Triton 3.4. An instruction of an inline assembly has a result, which is not used; the
    compiler moves no memory access across it.
    """
    if chained:
        _run("griddepcontrol.wait; mov.b32 $0, 0;")
        _run("griddepcontrol.launch_dependents; mov.b32 $0, 0;")


@triton.jit
def _run(ptx: tl.constexpr):
    tl.inline_asm_elementwise(ptx, "=r,~{memory}", [], dtype=tl.int32, is_pure=False, pack=1)
