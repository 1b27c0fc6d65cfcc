"""Compiles the native step: one object for each instruction set, one library. Everything else is in pyproject.toml.

`optional`: where no compiler is found, or it fails, the install goes on without the library.
"""

import platform

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

FLAGS = ["-std=c++17", "-O3", "-fPIC", "-pthread", "-ffp-contract=off", "-fno-math-errno", "-fvisibility=hidden", "-g0"]
FLAGS += ["-Wno-maybe-uninitialized"]  # of gcc 12's own intrinsics
AVX2 = ["-mavx2", "-mfma", "-mf16c"]
AVX512 = [*AVX2, "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq"]
# portable comes first: of the standard library's templates, which every object holds, the linker keeps the first
WAYS = {"portable": []}
if platform.machine().lower() in ("x86_64", "amd64"):
    WAYS |= {"avx2": AVX2, "avx512": AVX512, "avx512vnni": [*AVX512, "-mavx512vnni"]}


class BuildNative(build_ext):
    """way.cpp with the flags of every instruction set, and dispatch.cpp."""

    def build_extension(self, ext: Extension) -> None:
        objects, known = [], []
        for way, flags in WAYS.items():
            try:
                objects += self.compiler.compile(
                    ["kernels/cpu/runner.cpp"], f"{self.build_temp}/{way}", [("WAY", way)], extra_postargs=FLAGS + flags
                )
                known.append((f"WITH_{way}", "1"))
            except CompileError:  # an older compiler, which does not know the newest instructions
                if way == "portable":
                    raise
        objects += self.compiler.compile(["kernels/cpu/dispatch.cpp"], self.build_temp, known, extra_postargs=FLAGS)
        self.compiler.link_shared_object(
            objects, self.get_ext_fullpath(ext.name), extra_postargs=["-pthread"], target_lang="c++"
        )


FOLDERS = ["kernels*", "model*", "server*"]

setup(
    packages=["scanline", *(f"scanline.{name}" for name in find_packages(include=FOLDERS, exclude=["server.web*"]))],
    ext_modules=[Extension("scanline.kernels.cpu._step", ["kernels/cpu/runner.cpp"], optional=True)],
    cmdclass={"build_ext": BuildNative},
)
