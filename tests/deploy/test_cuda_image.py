"""The CUDA image's kernels: the Dockerfile's own commands, run in a folder instead of an image."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def command(instruction: str) -> str:
    """The one RUN or ENTRYPOINT of the Dockerfile that has to do with /opt/triton, as sh reads it."""
    lines = re.sub(r"\\\n\s*", "", DOCKERFILE).splitlines()
    (line,) = [line for line in lines if line.startswith(instruction) and "/opt/triton" in line]
    return line.removeprefix(instruction).strip()


def shell(script: str, folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script of the image whose /opt is `folder`, with python and scanline of this environment."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TRITON")}
    environment |= {"PATH": f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}", **variables}
    script = script.replace("/opt/triton", f"{folder}/triton")
    return subprocess.run(
        ["sh", "-c", script, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def entry_point(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    sh, flag, script, name = json.loads(command("ENTRYPOINT"))
    assert (sh, flag) == ("sh", "-c")
    return shell(script, folder, name, *arguments, **variables)


def replace_scanline(folder: Path, script: str) -> None:
    path = folder / "scanline"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("kept", [None, "older"])
def test_kernels_are_copied_to_the_cache_unless_there_is_one(kept: str | None, tmp_path: Path) -> None:
    (tmp_path / "triton/KEY").mkdir(parents=True)
    cache = tmp_path / "cache"
    if kept:
        (cache / kept).mkdir(parents=True)
    replace_scanline(tmp_path, 'echo "$#" "$@"')
    result = entry_point(tmp_path, "sample", "-n", "two words", TRITON_CACHE_DIR=str(cache))
    assert (result.returncode, result.stdout) == (0, "3 sample -n two words\n"), result.stderr
    assert [path.name for path in cache.iterdir()] == [kept or "KEY"]


def test_an_image_without_kernels_starts_too(tmp_path: Path) -> None:
    replace_scanline(tmp_path, "exit 3")
    assert entry_point(tmp_path, "serve").returncode == 3


def test_kernels_that_cannot_be_copied_do_not_stop_the_server(tmp_path: Path) -> None:
    (tmp_path / "triton").mkdir()
    replace_scanline(tmp_path, "echo serving")
    result = entry_point(tmp_path, "serve", TRITON_CACHE_DIR=str(tmp_path / "no folder" / "cache"))
    assert result.stdout == "serving\n"


def test_an_image_for_cpus_compiles_no_kernel(tmp_path: Path) -> None:
    result = shell(command("RUN"), tmp_path, DEVICE="cpu", CAPABILITY="90", TRITON_CACHE_DIR=str(tmp_path / "cache"))
    assert (result.returncode, list(tmp_path.iterdir())) == (0, []), result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("capability", ["90", "80"])
def test_a_server_finds_every_kernel_that_the_image_was_built_with(capability: str, tmp_path: Path) -> None:
    """The build fills a cache, the entry point brings it back, and Triton finds each launch of a step there."""
    pytest.importorskip("triton", reason="Triton is not installed")
    cache = tmp_path / "tmp/triton"
    cache.parent.mkdir()
    variables = {"DEVICE": "cuda", "CAPABILITY": capability, "TRITON_CACHE_DIR": str(cache)}
    built = shell(command("RUN"), tmp_path, **variables)
    assert built.returncode == 0, built.stderr
    assert not cache.exists()
    replace_scanline(tmp_path, f'exec {sys.executable} -m tests.support.kernels.kernel_lookups {capability} "$@"')
    for model in ("mnist-small", "cifar10-small"):
        served = entry_point(tmp_path, model, TRITON_CACHE_DIR=str(cache))
        assert served.returncode == 0, served.stdout + served.stderr
