"""The Dockerfile: the build context, and its own commands run
in a folder in place of an image.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# each instruction in one line
DOCKERFILE = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text())


def test_the_build_requires_the_native_step_and_the_page():
    (library,) = re.findall(r'Extension\(\s*"([\w.]+)"', (ROOT / "setup.py").read_text())
    required = re.findall(r"grep (\S+) contents", DOCKERFILE)
    assert required == [library.replace(".", "/"), "scanline/server/web/dist/index.html"]
    assert (ROOT / "src" / required[1]).is_file()


@pytest.mark.parametrize(
    ("scheme", "variables"), [("http", {}), ("https", {"SCANLINE_TLS_CERT": "cert.pem"})]
)
def test_the_health_check_asks_whether_the_process_is_alive(scheme, variables):
    """Not whether it is ready: a restart of the engine takes longer than three checks."""
    (line,) = re.findall(r"^HEALTHCHECK .*CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    command = [part.replace("exec wget", "echo") for part in json.loads(line)]
    environment = {**os.environ, "SCANLINE_PORT": "8000", **variables}
    said = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert said.split()[-1] == f"{scheme}://localhost:8000/healthz"


def command(instruction):
    """The one RUN or ENTRYPOINT that has to do with /opt/triton, as sh
    reads it, in a folder that has what is mounted.
    """
    (line,) = [
        line
        for line in DOCKERFILE.splitlines()
        if line.startswith(instruction) and "/opt/triton" in line
    ]
    mount = " --mount=type=bind,source=benchmarks,target=benchmarks"
    return line.removeprefix(instruction).removeprefix(mount).strip()


def shell(script, folder, *arguments, **variables):
    """Run a script of the image whose /opt is `folder`, with python
    and scanline of this environment.
    """
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("TRITON")
    }
    environment |= {
        "PATH": f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        **variables,
    }
    argv = ["sh", "-c", script.replace("/opt/triton", f"{folder}/triton"), *arguments]
    return subprocess.run(
        argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def entry_point(scanline, folder, *arguments, **variables):
    """Run the entry point with a script in place of scanline."""
    (folder / "scanline").write_text(f"#!/bin/sh\n{scanline}\n")
    (folder / "scanline").chmod(0o755)
    sh, flag, script, name = json.loads(command("ENTRYPOINT"))
    assert (sh, flag) == ("sh", "-c")
    return shell(script, folder, name, *arguments, **variables)


CACHES = {  # whether kernels are compiled, those in the cache, its place, those found there
    "copied": (True, "", "cache", ["KEY"]),
    "kept": (True, "older", "cache", ["older"]),
    "cannot be copied": (True, "", "no folder/cache", []),
    "not compiled": (False, "", "cache", []),
}


@pytest.mark.parametrize("what", CACHES)
def test_kernels_are_copied_to_an_empty_cache_and_the_server_starts_in_any_case(what, tmp_path):
    compiled, cached, cache, found = CACHES[what]
    if compiled:
        (tmp_path / "triton/KEY").mkdir(parents=True)
    if cached:
        (tmp_path / cache / cached).mkdir(parents=True)
    variables = {"TRITON_CACHE_DIR": str(tmp_path / cache)}
    result = entry_point(
        'echo "$#" "$@"; exit 3', tmp_path, "sample", "-n", "two words", **variables
    )
    assert (result.returncode, result.stdout) == (3, "3 sample -n two words\n"), result.stderr
    assert [path.name for path in (tmp_path / cache).glob("*")] == found


def test_an_image_for_cpus_compiles_no_kernel(tmp_path):
    result = shell(
        command("RUN"),
        tmp_path,
        DEVICE="cpu",
        CAPABILITY="90",
        TRITON_CACHE_DIR=str(tmp_path / "cache"),
    )
    assert (result.returncode, list(tmp_path.iterdir())) == (0, []), result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("capability", ["90", "80"])
def test_a_server_finds_every_kernel_that_the_image_was_built_with(capability, tmp_path):
    """The build fills a cache, the entry point brings it back, and Triton
    finds each launch of a step there.
    """
    pytest.importorskip("triton", reason="Triton is not installed")
    cache = tmp_path / "tmp/triton"
    cache.parent.mkdir()
    variables = {"DEVICE": "cuda", "CAPABILITY": capability, "TRITON_CACHE_DIR": str(cache)}
    built = shell(command("RUN"), tmp_path, **variables)
    assert built.returncode == 0, built.stderr
    assert not cache.exists()
    lookups = f'exec {sys.executable} -m tests.support.kernels.kernel_lookups {capability} "$@"'
    for model in ("mnist-small", "cifar10-small"):
        served = entry_point(lookups, tmp_path, model, TRITON_CACHE_DIR=str(cache))
        assert served.returncode == 0, served.stdout + served.stderr
