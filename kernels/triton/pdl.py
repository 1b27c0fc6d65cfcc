"""Handing a GPU over from kernel to kernel (Hopper's programmatic dependent launch): in a chain, a kernel is started
while the one before it still runs, may fetch what nobody writes, such as weights, and waits for the rest.

Every kernel of a chain calls `wait` before it touches what the launch before it writes, or writes what that one reads;
so each finds its forerunner ended, as if they had been launched one after the other. What was written two launches
before is there already: the one in between let this one come only when it had seen the other's end. The first of a
chain is an ordinary launch.
"""

from typing import Any

import triton
import triton.language as tl


def options(chained: bool) -> dict[str, Any]:
    """What a launch takes beside its arguments; not chained in Triton's interpreter, which knows nothing of it."""
    return {"chained": True, "launch_pdl": True} if chained else {"chained": False}


@triton.jit
def wait(chained: tl.constexpr):
    """Until all launches before this one have ended; from here on the next one may come."""
    if chained:
        tl.extra.cuda.gdc_wait()
        tl.extra.cuda.gdc_launch_dependents()
