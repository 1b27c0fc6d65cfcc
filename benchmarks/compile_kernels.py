"""Compile every Triton kernel of models for a GPU that need not be there, into Triton's cache on
disk.

    TRITON_CACHE_DIR=/tmp/triton python -m benchmarks.compile_kernels --capability 90 --jobs 4

A server on such a GPU, with the same versions of Triton and Scanline and the same TRITON_CACHE_DIR,
then finds its kernels there instead of compiling them: Triton's keys hold its own files, the
kernel's source, the types and alignment of arguments, the GPU's architecture and ptxas's version,
and nothing else of the machine; but a cached kernel is found by its absolute path. The C module by
which Triton launches kernels needs the GPU's driver and is not compiled here.

The launches are those of the CUDA backend with its tensors on the CPU: each is compiled, chained to
the launch before it and not, and none is made.
"""

import argparse
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import torch

from scanline.kernels.codec.coder import Decoder
from scanline.model import zoo
from scanline.model.base.device import HOPPER
from scanline.model.base.precision import PRECISIONS, precision
from scanline.model.base.state import State
from scanline.model.bench.run import load
from scanline.model.network.transformer import Transformer
from scanline.model.training.presets import PRESETS

# no launch is made, so none of them is beyond the end; what counts is how layers are aligned in
# memory
SLOTS = 16


def main(arguments: list[str] | None = None) -> int:
    """Return the exit status: 0 where everything was compiled, else 1."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.compile_kernels", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument(
        "--capability", type=int, default=90, help="of the GPU: 90 for H100 and H200"
    )
    parser.add_argument(
        "--models",
        nargs="*",
        default=list(zoo.names()),
        help="names or directories; all shipped ones",
    )
    parser.add_argument(
        "--random",
        nargs="*",
        default=[],
        choices=list(PRESETS),
        help="presets, with random weights",
    )
    parser.add_argument(
        "--precisions",
        nargs="*",
        default=list(PRECISIONS),
        choices=list(PRECISIONS),
        help="all by default; int8 is half of the work",
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    # which of the jobs this process is
    parser.add_argument("--share", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if "TRITON_INTERPRET" in os.environ:
        parser.error("TRITON_INTERPRET is set: the interpreter compiles nothing")
    if options.jobs < 1:
        parser.error(f"--jobs must be at least 1, not {options.jobs}")
    try:
        for name in options.models:
            zoo.find(name)
    except ValueError as error:
        parser.error(str(error))
    if options.jobs > 1 and options.share is None:
        return _run_jobs(options)
    torch.set_num_threads(1)  # as many processes as processors may do the same beside this one
    compiled = Compiler(options.capability, options.jobs, options.share or 0)
    with compiled.active():
        for name in options.models:
            launch_all(load(name, None, "cpu"), options.precisions)
        for preset in options.random:
            launch_all(load(None, preset, "cpu"), options.precisions)
    each = ", ".join(f"{count} {name}" for name, count in sorted(Counter(compiled.names).items()))
    print(f"{len(compiled.names)} kernels compiled for sm_{options.capability}: {each}")
    return 0


def _run_jobs(options: argparse.Namespace) -> int:
    """Run every share of the kernels in a process of its own, all at once."""
    command = [sys.executable, "-P", __file__]
    command += ["--capability", str(options.capability), "--jobs", str(options.jobs)]
    command += ["--models", *options.models, "--random", *options.random]
    command += ["--precisions", *options.precisions]
    started = [subprocess.Popen([*command, "--share", str(share)]) for share in range(options.jobs)]
    statuses = [process.wait() for process in started]
    return int(any(statuses))


def launch_all(model: Transformer, precisions: Sequence[str]) -> None:
    """Make every kind of launch that serving a model at these precisions makes."""
    from scanline.model.backends.cuda import CudaBackend
    from scanline.model.backends.prefill_batch import PrefillBatch
    from scanline.model.backends.slots import SlotPool

    config = model.config
    for name in precisions:
        chosen = precision(name)
        state_dtype = chosen.state_dtype
        backend = CudaBackend(model, state_dtype, int8_weights=chosen.int8_weights)
        pool = SlotPool.empty(config, SLOTS, model.device, state_dtype, backend.deferred)
        backend.warm_up(pool)
        for size in backend.options.sizes:
            backend.advance(pool, np.arange(size) % SLOTS, 1)
        images = torch.zeros(1, config.bytes, dtype=torch.uint8)
        stop = config.first + config.step_bytes
        for in_one_launch in (True, False):
            backend.kernel_prefill.in_one_launch = in_one_launch
            state = State.zeros(config, 1, model.device, state_dtype, backend.deferred)
            backend.prefill(PrefillBatch.of(images, state, np.array([stop])))
        backend.put_codes(pool, np.arange(1), [Decoder(b"")])
        backend.advance(pool, np.arange(1), 1)
        backend.close()


class Compiler:
    """Compile what would be launched: of all different launches every `jobs`-th, from number
    `share` on."""

    def __init__(self, capability: int, jobs: int = 1, share: int = 0) -> None:
        self.capability = capability
        self.jobs = jobs
        self.share = share
        self.seen: set[object] = set()
        self.names: list[str] = []  # of the kernels that were compiled, one for each variant

    @contextmanager
    def active(self) -> Iterator[None]:
        """Inside, launches are compiled and not made."""
        from triton.runtime import driver
        from triton.runtime.jit import JITFunction

        compile_or_run = JITFunction.run

        def only_compile(
            function: JITFunction, *args: Any, grid: Any, warmup: bool, **options: Any
        ) -> None:
            for variant in _variants(options, self.capability):
                if self._is_ours(
                    (function.__name__, _kinds(function, args), tuple(variant.items()))
                ):
                    compile_or_run(function, *args, grid=grid, warmup=True, **variant)
                    self.names.append(function.__name__)

        driver.set_active(_Driver(self.capability))
        with mock.patch.object(JITFunction, "run", only_compile):
            yield

    def _is_ours(self, launch: object) -> bool:
        if launch in self.seen:
            return False
        self.seen.add(launch)
        return len(self.seen) % self.jobs == self.share


def _variants(options: dict[str, Any], capability: int) -> list[dict[str, Any]]:
    """Return the keyword arguments of a launch, chained and not where it can be chained at all."""
    from scanline.kernels.triton.pdl import options as chaining

    if "chained" not in options:
        return [options]
    plain = {name: value for name, value in options.items() if name not in chaining(True)}
    ways = (True, False) if divmod(capability, 10) >= HOPPER else (False,)
    return [{**plain, **chaining(chained)} for chained in ways]


def _kinds(function: Any, args: Sequence[Any]) -> tuple[object, ...]:
    """Return what of a launch's arguments decides which code it needs."""
    return tuple(
        _kind(parameter, arg) for parameter, arg in zip(function.params, args, strict=False)
    )


def _kind(parameter: Any, arg: Any) -> object:
    if isinstance(arg, torch.Tensor):
        return arg.dtype, arg.data_ptr() % 16
    if parameter.is_constexpr or not isinstance(arg, int):
        return arg
    return "number" if parameter.do_not_specialize else (arg == 1, arg % 16 == 0)


class _Driver:
    """The part of a driver that the compiler needs."""

    def __init__(self, capability: int) -> None:
        self.capability = capability

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int = 0) -> int:
        return 0


if __name__ == "__main__":
    sys.exit(main())
