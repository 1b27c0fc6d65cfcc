"""This machine's C++ compiler, and Debian's for aarch64 with
qemu-user, which runs what it makes.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
HEADERS = ROOT / "kernels" / "cpu"
PROGRAMS = ROOT / "tests" / "kernels" / "cpu"
COMPILER = shutil.which("c++")
CROSS_PREFIX = "aarch64-linux-gnu"
CROSS_COMPILER = shutil.which(f"{CROSS_PREFIX}-g++")
EMULATOR = shutil.which("qemu-aarch64")
CROSS_MISSING = [
    name
    for name, found in ((f"{CROSS_PREFIX}-g++", CROSS_COMPILER), ("qemu-aarch64", EMULATOR))
    if found is None
]


def compile_program(compiler, source, folder, *arguments):
    """Compile one of PROGRAMS into `folder`, without contraction as
    setup.py does; returns the program.
    """
    program = folder / Path(source).stem
    flags = ["-std=c++17", "-O2", "-ffp-contract=off", "-fno-math-errno", f"-I{HEADERS}"]
    flags += ["-Wno-maybe-uninitialized", "-Wno-uninitialized"]
    subprocess.run(
        [compiler, *flags, str(PROGRAMS / source), *map(str, arguments), "-o", str(program)],
        check=True,
    )
    return program


def compile_library(folder, **environment):
    """Compile the library into `folder` as setup.py does, with these variables of
    the environment; returns its path.
    """
    command = [
        sys.executable,
        "setup.py",
        "-q",
        "build_ext",
        "--build-lib",
        folder,
        "--build-temp",
        folder / "objects",
    ]
    subprocess.run(command, cwd=ROOT, env=os.environ | environment, check=True, capture_output=True)
    (library,) = folder.rglob("_step.abi*.so")
    return library


def run_program(program, *arguments, emulated=False):
    """What the program prints; fails with that if it does not exit with 0."""
    emulator = [str(EMULATOR), "-L", f"/usr/{CROSS_PREFIX}"] if emulated else []
    ran = subprocess.run(
        [*emulator, str(program), *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, f"{ran.returncode}: {ran.stdout[-1000:]} {ran.stderr[-1000:]}"
    return ran.stdout
