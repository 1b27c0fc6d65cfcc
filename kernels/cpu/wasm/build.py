"""Compiles the CPU kernel to WebAssembly: step.wasm of this folder, which is committed.

    pip install ziglang==0.17.1
    python kernels/cpu/wasm/build.py [FILE]

Another version of the compiler writes other instructions, and is refused.
"""

import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

COMPILER = "0.17.1"
HERE = Path(__file__).parent
KERNEL = HERE.parent
SOURCES = ["runner.cpp", "dispatch.cpp", "wasm/traps.cpp"]
EXPORTED = [
    "malloc",
    "free",
    *re.findall(r"\bscanline_\w+(?=\()", (KERNEL / "abi.h").read_text()),
]
(ABI,) = re.findall(r"^ABI = (\d+)", (KERNEL / "bindings.py").read_text(), re.MULTILINE)
FLAGS = [
    "-target",
    "wasm32-wasi",
    "-mexec-model=reactor",
    "-msimd128",
    "-std=c++17",
    "-O3",
    "-ffp-contract=off",
    "-fno-fast-math",
    "-fno-math-errno",
    "-fignore-exceptions",
    "-fvisibility=hidden",
    "-g0",
    "-I.",
    f"-DSCANLINE_ABI={ABI}",
    "-DISA=wasm",
    "-DWITH_wasm",
    "-Wl,-s",
    *(f"-Wl,--export={name}" for name in EXPORTED),
]


def build(path: Path) -> None:
    """Write the module to `path`."""
    command = [sys.executable, "-m", "ziglang", "c++", *FLAGS, *SOURCES]
    subprocess.run([*command, "-o", path.resolve()], cwd=KERNEL, check=True)


def installed() -> str | None:
    """Return the version of the compiler that is installed."""
    try:
        return version("ziglang")
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    if installed() != COMPILER:
        sys.exit(f"The module is built by one compiler: pip install ziglang=={COMPILER}")
    build(Path(sys.argv[1]) if sys.argv[1:] else HERE / "step.wasm")
