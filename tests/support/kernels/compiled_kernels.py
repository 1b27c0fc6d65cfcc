"""Compiles Triton kernels for a GPU that is not there, and reads what the compiler made of each
launch: registers, spilled bytes, shared memory, products that ptxas serialised, and copies that
do not wait for the previous kernel.

Works with any Triton from 3.6 on, in a process without Triton's interpreter.
"""

import contextlib
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.pop("TRITON_INTERPRET", None)  # before any kernel is imported

from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia import compiler
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from tests.support.kernels.ttgir import early, products_begin_at_zero

# kilobytes that a program may have, by compute capability
KILOBYTES = {
    80: 163,
    86: 99,
    87: 163,
    89: 99,
    90: 227,
    100: 227,
    103: 227,
    110: 227,
    120: 99,
    121: 99,
}
SHARED = {card: kilobytes * 1024 for card, kilobytes in KILOBYTES.items()}

# variants by their hashes: Triton compiles each once a process
_compiled = {}
launched = []  # what each launch would run


@dataclass(frozen=True)
class Compiled:
    capability: int
    name: str
    constants: str  # what it was compiled for: numbers, names and types of arguments
    registers: int
    spilled: int  # bytes stored to local memory, and loaded again
    shared: int  # bytes of a program
    serialised: bool  # ptxas C75xx: each asynchronous product waits for the one before it
    # an asynchronous copy stands before the wait for the previous
    # kernel, or the wait stands in a loop
    early: bool
    # a product of `_linear` begins at another term of its sum, so its order depends on the tiling
    reordered: bool
    asm: dict[str, Any]

    @property
    def faults(self):
        """What must not be in a kernel that users run."""
        found = {
            f"{self.spilled} bytes spilled": self.spilled > 0,
            "serialised products": self.serialised,
            f"more than {SHARED[self.capability]} bytes of shared memory": self.shared
            > SHARED[self.capability],
            "a copy before the wait, or a wait in a loop": self.early,
            "a product that begins at another sum": self.reordered,
        }
        return [fault for fault, there in found.items() if there]

    def __str__(self):
        line = f"sm_{self.capability} {self.name}: {self.registers} registers, {self.shared} bytes shared"
        return ", ".join([line, *self.faults]) + f"  [{self.constants}]"


class Driver:
    """The part of a driver that the compiler needs."""

    def __init__(self, capability):
        self.capability = capability

    def get_current_target(self):
        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self):
        return self.capability  # Triton keeps compiled kernels by device

    def get_current_stream(self, device=0):
        return 0


@contextlib.contextmanager
def compiling(capability):
    """Inside, launches are compiled for that capability and not made; yields the list that each
    variant joins that this process had not compiled yet. Triton's cache on disk is not read."""
    found = []
    logs = []
    launch = JITFunction.run
    always = knobs.compilation.always_compile

    def run(command, **options):
        """As subprocess.run of ptxas, whose log Triton reads only where it fails."""
        subprocess.run(command, **options)
        logs.append(Path(options["stderr"].name).read_text())

    def only_compile(self, *args, grid, warmup, **options):
        logs.clear()
        kernel = launch(self, *args, grid=grid, warmup=True, **options)
        if kernel.hash not in _compiled:
            _compiled[kernel.hash] = _examined(
                capability, self, kernel, "".join(logs), args, options
            )
            found.append(_compiled[kernel.hash])
        launched.append(_compiled[kernel.hash])

    driver.set_active(Driver(capability))
    JITFunction.run = only_compile
    knobs.compilation.always_compile = True
    compiler.subprocess = SimpleNamespace(**{**vars(subprocess), "run": run})
    try:
        yield found
    finally:
        JITFunction.run = launch
        knobs.compilation.always_compile = always
        compiler.subprocess = subprocess


def _examined(capability, function, kernel, log, args, options):
    numbers = {
        name: int(number)
        for number, name in re.findall(r"(\d+) (registers|bytes spill stores)", log)
    }
    assert "registers" in numbers, f"ptxas reported no registers of {function.__name__}:\n{log}"
    types = [
        str(arg.dtype).removeprefix("torch.") if hasattr(arg, "dtype") else arg for arg in args
    ]
    shown = [f"{name}={value}" for name, value in zip(function.arg_names, types, strict=False)]
    return Compiled(
        capability,
        function.__name__,
        ", ".join([*shown, *(f"{name}={value}" for name, value in options.items())]),
        numbers["registers"],
        numbers["bytes spill stores"],
        kernel.metadata.shared,
        re.search(r"C75\d\d|serialized", log) is not None,
        early(kernel.asm["ttgir"], options.get("chained", False)),
        function.__name__ == "_linear" and not products_begin_at_zero(kernel.asm["ttgir"]),
        kernel.asm,
    )
