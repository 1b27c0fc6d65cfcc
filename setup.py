"""Compiles the CPU kernel: one object for each instruction set of the compiler's target,
one library. With CC and CXX naming a cross compiler that target is another machine's.
Everything else is in pyproject.toml.

The library has a plain C interface and no Python in it: one wheel per platform serves every Python
3. `optional`: where no compiler is found, or it fails, the install goes on without the library,
and the wheel is one for any platform.
"""

import os
import platform
import re
import subprocess
import sys
from glob import glob
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

if Path("src/scanline/kernels").is_file():  # as git writes links where they are not to be had
    sys.exit(
        "src/scanline/kernels, model and server must be links; clone with `git clone -c core.symlinks=true`."
    )
KERNEL = "src/scanline/kernels/cpu"
BINDINGS = Path(KERNEL, "bindings.py").read_text()
ABI = re.search(r"^ABI = (\d+)", BINDINGS, re.MULTILINE)[1]
LIBRARY = f"_step.abi{ABI}.so"  # bindings.py loads this name and no other

FLAGS = [
    "-fno-fast-math",  # whatever CXXFLAGS says: it would change the bytes
    "-fno-wrapv",  # with -fwrapv, one of Python's own flags, a step of two rows took 8 % longer
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-pthread",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fvisibility=hidden",
    "-g0",
    f"-I{KERNEL}",
]
FLAGS += os.environ.get("SCANLINE_CXXFLAGS", "").split()  # of a sanitizer, for one
FLAGS += ["-Wno-maybe-uninitialized", "-Wno-uninitialized"]  # of gcc 12's own intrinsics
AVX2 = ["-mavx2", "-mfma", "-mf16c"]
AVX512 = [*AVX2, "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq"]
ISAS = {  # by processor, as `cc -dumpmachine` names it; any other has the portable code alone
    "x86_64": {
        "portable": [],
        "avx2": AVX2,
        "avxvnni": [*AVX2, "-mavxvnni"],
        "avx512": AVX512,
        "avx512vnni": [*AVX512, "-mavx512vnni"],
        "amx": [*AVX512, "-mavx512vnni", "-mamx-tile", "-mamx-int8"],
    },
    "aarch64": {"neon": []},
}
if sys.platform == "darwin":  # where Python itself may be built for two processors at once
    os.environ.setdefault("ARCHFLAGS", f"-arch {platform.machine()}")


class BuildLibrary(build_ext):
    """runner.cpp with the flags of every instruction set, and dispatch.cpp."""

    def get_ext_filename(self, fullname: str) -> str:
        """Without the interpreter's version, which setuptools puts into
        the name of an extension module.
        """
        return str(Path(*fullname.split(".")).with_name(LIBRARY))

    def processor(self) -> str:
        """The processor that the compiler compiles for, which with a
        cross compiler is not this machine's.
        """
        compiler = getattr(self.compiler, "compiler_so", ["cc"])[0]
        try:
            target = subprocess.run(
                [compiler, "-dumpmachine"], capture_output=True, text=True, check=False
            ).stdout
        except OSError:  # no compiler: compiling fails later, as it may
            target = ""
        name = target.partition("-")[0] or platform.machine().lower()
        return {"arm64": "aarch64", "amd64": "x86_64"}.get(name, name)

    def build_extension(self, ext: Extension) -> None:
        runner, dispatch = ext.sources
        objects = []
        known = [("SCANLINE_ABI", ABI)]
        isas = ISAS.get(self.processor(), {"portable": []})
        for isa, flags in isas.items():
            try:
                objects += self.compiler.compile(
                    [runner],
                    f"{self.build_temp}/{isa}",
                    [("ISA", isa)],
                    extra_postargs=FLAGS + flags,
                )
                known.append((f"WITH_{isa}", "1"))
            except CompileError:  # an older compiler, which does not know the newest instructions
                if not flags:
                    raise
        # Of the standard library's templates, which several objects hold, the linker keeps the
        # first: it must be one that every processor can run.
        objects = (
            self.compiler.compile([dispatch], self.build_temp, known, extra_postargs=FLAGS)
            + objects
        )
        self.compiler.link_shared_object(
            objects, self.get_ext_fullpath(ext.name), extra_postargs=FLAGS, target_lang="c++"
        )


class Wheel(bdist_wheel):
    """py3-none-<platform> with the library in it, py3-none-any without."""

    def run(self) -> None:
        self.run_command("build")
        build = self.get_finalized_command("build_ext")
        if not Path(build.get_ext_fullpath(build.extensions[0].name)).exists():
            self.root_is_pure = True
            self.distribution.ext_modules = []  # else the files go where compiled ones belong
        super().run()

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", "any" if self.root_is_pure else super().get_tag()[2]


setup(
    ext_modules=[
        Extension(
            "scanline.kernels.cpu._step",
            [f"{KERNEL}/runner.cpp", f"{KERNEL}/dispatch.cpp"],
            depends=sorted(glob(f"{KERNEL}/**/*.h", recursive=True)),
            optional=True,
        )
    ],
    cmdclass={"build_ext": BuildLibrary, "bdist_wheel": Wheel},
)
