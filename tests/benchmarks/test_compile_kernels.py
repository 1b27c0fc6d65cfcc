"""Compiling a model's kernels for a GPU that is not there."""

import os
import re
import subprocess
import sys

import pytest

pytest.importorskip("triton", reason="Triton is not installed")

from benchmarks.compile_kernels import main
from scanline.model.formats.checkpoint import save_model
from tests.support import small_models


def test_the_interpreter_compiles_nothing(monkeypatch, capsys):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(SystemExit, match="2"):
        main(["--models"])
    assert "TRITON_INTERPRET is set" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--models", "no model"], "there is no model 'no model'"),
        (["--jobs", "0"], "--jobs must be at least 1, not 0"),
    ],
)
def test_wrong_arguments_are_refused_in_a_sentence(
    arguments,
    sentence,
    monkeypatch,
    capsys,
):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert sentence in capsys.readouterr().err


@pytest.mark.slow
def test_processes_share_the_kernels_and_fill_the_same_cache_as_one(tmp_path):
    save_model(small_models.model(small_models.config(layers=1)), tmp_path / "model")
    counts = {}
    for jobs in (1, 2):
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("TRITON")
        }
        environment["TRITON_CACHE_DIR"] = str(tmp_path / f"cache of {jobs}")
        command = [sys.executable, "-m", "benchmarks.compile_kernels", "--jobs", str(jobs)]
        command += ["--models", str(tmp_path / "model")]
        result = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        )
        for kernel in ("_linear", "_ordered_linear", "_step", "_ordered_steps"):
            assert re.search(rf"\d {kernel}\b", result.stdout), kernel
        counts[jobs] = [
            int(count) for count in re.findall(r"(\d+) kernels compiled", result.stdout)
        ]
    assert sum(counts[2]) == counts[1][0] > 0
    assert min(counts[2]) > 0
    kernels = [
        sorted(path.name for path in (tmp_path / f"cache of {jobs}").iterdir()) for jobs in (1, 2)
    ]
    assert kernels[0] == kernels[1]
