"""Compilation of all kernels on all cores at once, before any part waits for them one by one, and
whether a generator finds them in Triton's cache, as the CUDA image relies on."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from triton import knobs

from benchmarks.gpu.results import Finding
from benchmarks.gpu.setup import PAPER, SHIPPED, Sizes, attempt, make_generator, model
from scanline.model.base.resources import cores
from scanline.model.formats.checkpoint import save_model

LIMIT = 150  # seconds
COMPILED = ("exact", "bfloat16-state")  # which most parts run; int8 takes as long as both


def compile_kernels(sizes: Sizes) -> Iterator[Finding]:
    """Yield the seconds of compiling, kernels compiled, and those that a generator compiles all the
    same."""
    with TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "benchmarks.compile_kernels",
            "--jobs",
            str(1 if sizes.dry else cores()),
            "--precisions",
            *COMPILED,
        ]
        if sizes.dry:
            save_model(model(SHIPPED[0], sizes), Path(folder))
            command += ["--models", folder]
        else:
            major, minor = torch.cuda.get_device_capability()
            command += [
                "--capability",
                str(10 * major + minor),
                "--models",
                *SHIPPED,
                "--random",
                *PAPER,
            ]
        environment = dict(os.environ)
        environment.pop("TRITON_INTERPRET", None)
        began = time.perf_counter()
        limit = 4 * LIMIT if sizes.dry else LIMIT
        result = subprocess.run(
            command, env=environment, timeout=limit, capture_output=True, text=True, check=False
        )
    yield Finding("compile/seconds", time.perf_counter() - began, "s", f"{cores()} cores")
    if result.returncode:
        raise RuntimeError(result.stderr.strip().splitlines()[-1])
    lines = [line for line in result.stdout.splitlines() if "kernels compiled" in line]
    compiled = sum(int(line.split()[0]) for line in lines)
    yield Finding("compile/kernels", compiled, "kernels")
    for name in SHIPPED:
        yield from attempt(f"compile/{name}/to_ready", partial(loading, name, sizes))


def loading(name: str, sizes: Sizes) -> Iterator[Finding]:
    """Yield the seconds to ready of a generator, and the kernels that it did not find in Triton's
    cache."""
    missed: list[str] = []
    hits = 0

    def listener(*, src: Any, cache_hit: bool, **_: Any) -> None:
        nonlocal hits
        hits += cache_hit
        if not cache_hit:
            missed.append(src.name)

    before = knobs.compilation.listener
    knobs.compilation.listener = listener
    try:
        began = time.perf_counter()
        generator = make_generator(model(name, sizes), sizes.most)
        seconds = time.perf_counter() - began
        generator.close()
    finally:
        knobs.compilation.listener = before
    yield Finding(
        f"compile/{name}/to_ready", seconds, "s", "weights loaded, graphs of every size recorded"
    )
    note = f"{hits} found in the cache"
    if missed:
        note += f"; not found: {', '.join(sorted(set(missed)))}"
    yield Finding(f"compile/{name}/not_in_cache", len(missed), "kernels", note)
