"""Features that a GPU lacks, and its failures, as one line each."""

import ast
import logging
import sys
import sysconfig
from contextlib import nullcontext

import pytest
import torch

from scanline.kernels import gpu
from tests.support.kernels.compilers import COMPILER

DEVICE = torch.device("cuda", 0)


@pytest.fixture
def card(monkeypatch):
    """A GPU that has all that the kernels need, until a test takes something away."""
    gpu.missing.cache_clear()
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(gpu, "find_spec", lambda name: object())
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    yield monkeypatch
    gpu.missing.cache_clear()


@pytest.mark.parametrize(
    ("holder", "name", "value", "lacks"),
    [
        (gpu, "find_spec", lambda name: object(), None),
        (
            torch.version,
            "hip",
            "6.4",
            "the kernels are made for NVIDIA GPUs, and this torch is built for ROCm",
        ),
        (gpu, "find_spec", lambda name: None, "Triton is not installed"),
        (
            torch.cuda,
            "is_bf16_supported",
            lambda including_emulation: including_emulation,
            "Tesla T4 has no bfloat16",
        ),
    ],
)
def test_what_cards_lack(card, holder, name, value, lacks):
    card.setattr(holder, name, value)
    assert gpu.missing(DEVICE) == lacks


def test_the_summary_of_an_error_is_one_line_about_what_caused_it_not_where():
    error = RuntimeError("at 40:4:\n    x = tl.zeros(...)\n        ^")
    error.__cause__ = TypeError("gdc_wait() got\nan unexpected keyword argument")
    assert gpu.summary(error) == "TypeError: gdc_wait() got an unexpected keyword argument"
    assert gpu.summary(MemoryError()) == "MemoryError"
    assert gpu.summary(ValueError("far too long " * 1000)).count("too long") < 20
    compilers = pytest.importorskip("triton.compiler.errors", reason="Triton is not installed")
    error = compilers.CompilationError(
        "def kernel():\n    pass", ast.parse("pass").body[0], "ValueError('no tf32x3')"
    )
    assert gpu.summary(error) == "CompilationError: ValueError('no tf32x3')"


@pytest.fixture
def builder(tmp_path, monkeypatch):
    """Triton's compiler of C modules, in a machine without Python.h
    and with no module in the cache.
    """
    build = pytest.importorskip("triton.runtime.build", reason="Triton is not installed")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(
        sysconfig, "get_paths", lambda scheme=None: {"include": str(tmp_path / "include")}
    )
    if hasattr(build, "_find_compiler"):  # else it looks for a compiler each time
        build._find_compiler.cache_clear()
    return build


def cause(builder):
    """The summary of why a C module of Python is not compiled."""
    with pytest.raises(Exception) as raised:  # noqa: PT011
        builder.compile_module_from_src("#include <Python.h>", "launcher")
    return gpu.summary(raised.value)


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
def test_without_python_h_the_summary_names_its_package(builder, tmp_path):
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    assert cause(builder) == (
        f"CalledProcessError: Triton compiles a C module before its first launch, and {tmp_path / 'include'} has no"
        f" Python.h: install the package {version}-dev (Debian, Ubuntu) or {version}-devel (Fedora)"
    )
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "Python.h").write_text("#error broken")
    assert "does not compile, for the reasons that " in cause(builder)


def test_without_a_c_compiler_the_summary_names_it(builder, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert cause(builder) == (
        "RuntimeError: Triton compiles a C module before its first launch and finds no C compiler: install the package"
        " gcc"
    )


def test_a_line_says_how_many_kernels_are_compiled_and_where_they_are_kept(
    caplog,
):
    knobs = pytest.importorskip("triton.knobs", reason="Triton is not installed")
    before = knobs.compilation.listener
    with caplog.at_level(logging.INFO, "scanline.model"):
        for hits in ([True, False, False], [True]):
            with gpu.reported_compilation():
                for hit in hits:  # as Triton calls it
                    knobs.compilation.listener(
                        src=None, metadata={}, metadata_group={}, times=None, cache_hit=hit
                    )
    assert caplog.messages == [
        "compiling kernels for this GPU: 1 so far, 0 s",
        f"2 kernels compiled in 0 s; the next start finds them in {knobs.cache.dir}",
    ]
    assert knobs.compilation.listener is before
