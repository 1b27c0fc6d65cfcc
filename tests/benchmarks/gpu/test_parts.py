"""Parts of a GPU run: their findings are kept, their ends recorded, and
the next one runs; what is found.
"""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed")

from benchmarks.gpu import update_profile, worker
from benchmarks.gpu.__main__ import main
from benchmarks.gpu.correctness import Snapshot, compare
from benchmarks.gpu.goals import chosen
from benchmarks.gpu.parts import PARTS, Part
from benchmarks.gpu.results import Finding, ResultsFile
from benchmarks.gpu.setup import DRY, ON_GPU
from benchmarks.gpu.tests_here import files_of_tests
from benchmarks.gpu.update_kernels import kind_of

HEADER = {"commit": "abc", "gpu": {"name": "none"}, "dry": True}


def works(sizes):
    yield Finding("works", os.getpid(), "process")


def raises(sizes):
    yield Finding("raises/before", 1.0)
    raise RuntimeError("CUDA error: an illegal memory access\nmore lines")


def dies(sizes):
    yield Finding("dies/before", 1.0)
    os._exit(7)


def hangs(sizes):
    yield Finding("hangs/before", 1.0)
    time.sleep(600)


def never(sizes):
    raise AssertionError("this part has no time")
    yield


def part(run, seconds=1):
    return Part(run.__name__, run, seconds, "a test")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.json"


def recorded(path):
    parts = json.loads(path.read_text())["parts"]
    return parts


def test_whatever_a_part_does_it_is_recorded_and_the_next_one_runs(path, monkeypatch):
    # no part uses a device, and a spawned process imports torch
    monkeypatch.setattr(worker, "METHOD", "fork")
    # a fork has this process's end of its pipe, and does not see it closed
    monkeypatch.setattr(worker, "ENDING", 0.1)
    parts = [
        part(works), part(raises), replace(part(works), name="after"), part(dies),
        part(never, seconds=10_000), replace(part(works), name="last"), part(hangs),
    ]  # fmt: skip
    shown = []
    results = ResultsFile(path, HEADER)
    worker.run_parts(parts, DRY, results, 9_000, 13, shown.append)
    record = recorded(path)
    assert {name: part["status"] for name, part in record.items()} == {
        "works": "done", "raises": "failed", "after": "done", "dies": "failed",
        "never": "skipped", "last": "done", "hangs": "failed",
    }  # fmt: skip
    assert (
        "RuntimeError: CUDA error: an illegal memory access more lines ("
        in record["raises"]["reason"]
    )
    assert record["dies"]["reason"] == "its process ended with exit status 7"
    assert record["never"]["reason"].startswith("needs about 10000 s, and ")
    assert record["hangs"]["reason"] == "did not end within 13 s"
    assert record["works"]["reason"] is None
    for name in ("raises", "dies", "hangs"):
        assert [finding["name"] for finding in record[name]["findings"]] == [f"{name}/before"]
    assert any("illegal memory access" in line for line in shown)
    processes = [value_found(path, name) for name in ("works", "after", "last")]
    assert len(set(processes)) == 3  # a new one after each failure
    assert (results.status("never"), results.status("of another run")) == ("skipped", "skipped")


def tells_its_options(sizes):
    yield Finding("options", sizes.fastest.get("streams"))


def value_found(path, part):
    return recorded(path)[part]["findings"][0]["value"]


def two_streams_win(sizes):
    yield Finding("goals/mnist-small/4096/2_streams/of_one_stream", 1.3)
    yield Finding("goals/mnist-small/same_bits/2_streams/after_1_steps/differing", 0)


def test_all_parts_together_take_less_than_the_ten_minutes_of_a_card():
    assert sum(part.seconds for part in PARTS) < 9.5 * 60


def test_later_parts_run_with_the_streams_that_were_found(path, monkeypatch):
    monkeypatch.setattr(worker, "METHOD", "fork")
    before = replace(part(tells_its_options), name="before")
    parts = [before, replace(part(two_streams_win), name="goals"), replace(before, name="after")]
    results = ResultsFile(path, HEADER)
    worker.run_parts(parts, DRY, results, 9_000, 100, lambda line: None)
    assert [value_found(path, name) for name in ("before", "after")] == [None, 2]


SAME = {"name": "goals/0/same_bits/2_streams/after_1_steps/differing", "value": 0}


def ratios(streams, *values):
    """What `goals` finds of models: how many times as fast so many streams are as one."""
    name = f"goals/{{}}/4096/{streams}_streams/of_one_stream"
    return [{"name": name.format(model), "value": value} for model, value in enumerate(values)]


@pytest.mark.parametrize(
    ("findings", "options"),
    [
        ([], {}),
        ([*ratios(2, 1.01, 1.02), SAME], {}),  # less is noise
        ([*ratios(2, 1.03, 1.03), SAME], {"streams": 2}),
        ([*ratios(2, 1.3, 0.7), SAME], {}),  # a gain for one model that costs the others as much
        ([*ratios(2, 1.2, 1.1), *ratios(4, 1.3, 1.2), SAME], {"streams": 4}),
        ([*ratios(2, 1.5), {**SAME, "value": 1}], {}),
        (ratios(2, 1.5), {}),  # nothing was compared
        ([*ratios(2, None), SAME], {}),
    ],
)
def test_the_fastest_number_of_streams_is_chosen_where_it_is_worth_it_and_no_bit_differs(
    findings, options
):
    assert chosen(findings, ON_GPU) == options


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ("nvjet_hsh_192x192_64x4_2x1_v_bz_coopB_NNT", "products"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x128x64", "products"),
        ("triton_tem_fused_addmm_gelu_4", "products"),
        ("triton_poi_fused_addmm_gelu_4", "gelu_and_copies"),
        ("triton_poi_fused__to_copy_7", "gelu_and_copies"),
        ("Memcpy DtoD (Device -> Device)", "gelu_and_copies"),
        ("triton_per_fused__to_copy_native_layer_norm_backward_9", "rest"),
        ("_key_value_gradients", "attention"),
        ("_norm_conv_backward", "convolution"),
        (
            "void at::native::multi_tensor_apply_kernel<at::native::FusedAdamMathFunctor>",
            "optimiser",
        ),
        ("triton_red_fused_logsumexp_2", "rest"),
    ],
)
def test_the_kinds_of_kernels_of_an_update(kernel, kind):
    assert kind_of(kernel) == kind


NOISY = r"""
import json, sys
print("a warning first")
print("ready")
sys.stdin.readline()
print(json.dumps({"ms": 1.0, "note": "", "tflops": 1.0, "compile_seconds": 1.0, "kernels": {"nvjet": [1000.0]}}))
print("[W] a stray line at the exit")
"""
ENDED = "print('no memory for it'); raise SystemExit(3)"


def test_a_stray_line_of_one_model_loses_nothing_of_the_other(monkeypatch):
    programs = {"cifar10-small": ENDED, "mnist-small": NOISY}
    start = subprocess.Popen

    def program(command, **options):
        return start([sys.executable, "-c", programs[command[3]]], **options)

    monkeypatch.setattr(subprocess, "Popen", program)
    found = {finding.name: finding for finding in update_profile.update_profile(DRY)}
    assert found["update_profile/cifar10-small"].value is None
    assert "no memory for it" in found["update_profile/cifar10-small"].note
    assert found["update_profile/mnist-small"].value == 1.0
    assert found["update_profile/mnist-small/products"].value == pytest.approx(
        1.0 / update_profile.PROFILED
    )


def test_a_part_has_failed_until_it_ends(path):
    results = ResultsFile(path, HEADER)
    assert results.status("one") == "skipped"
    results.begin("one")
    assert recorded(path)["one"]["reason"] == "the run ended before this part did"
    results.add("one", Finding("one/x", 1.5, "us"))
    results.end("one", 2.0, None)
    assert results.status("one") == "done"


def test_the_tests_that_run_on_a_gpu_are_found_by_what_they_import():
    files = files_of_tests()
    for kernel in ("attention", "step", "triton"):
        assert any(file.startswith(f"tests/kernels/{kernel}/test_") for file in files)
    assert "tests/model/backends/cuda/test_painting.py" in files
    assert not any(file.startswith("tests/benchmarks") for file in files)


def snapshot(images):
    torch.manual_seed(0)
    return Snapshot(
        images=torch.randint(0, 256, (5, 7), dtype=torch.uint8)[:images],
        bits=torch.rand(5, dtype=torch.float64)[:images],
        s=torch.rand(2, 5, 3, 4, 4)[:, :images],
        z=torch.rand(2, 5, 3, 4)[:, :images],
    )


@pytest.mark.parametrize("name", ["bits", "s", "z"])
def test_a_difference_in_the_last_bit_of_one_number_is_seen(name):
    mine = snapshot(4)
    same = {"images": 0, "bits": 0, "s": 0, "z": 0}
    assert mine.differences(snapshot(5)) == same
    changed = getattr(mine, name).clone()
    number = changed.flatten()[2:3]
    number.copy_(torch.nextafter(number, number + 1))
    assert mine.differences(replace(mine, **{name: changed})) == {**same, name: 1}


def test_later_snapshots_are_compared_with_the_largest_before():
    expected = {}
    assert list(compare("one", {1: snapshot(1)}, expected)) == []
    (finding,) = compare("three", {1: snapshot(3)}, expected)
    assert (finding.name, finding.value) == ("three/after_1_steps/differing", 0)
    assert "of 1 images compared" in finding.note
    assert len(expected[1].images) == 3


@pytest.fixture
def dry_run(path, monkeypatch):
    """Arguments with which the code of every part runs without a GPU, with tiny sizes."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")  # main sets it, also where there is a GPU
    return ["--dry-run", "--out", str(path)]


def test_results_are_kept(path, dry_run, capsys):
    path.write_text("{}")
    with pytest.raises(SystemExit, match="2"):
        main(dry_run)
    assert "give another name by --out" in capsys.readouterr().err
    assert path.read_text() == "{}"


@pytest.mark.slow
def test_every_part_runs(path, dry_run):
    assert main(dry_run) == 0
    assert json.loads(path.read_text())["gpu"]["name"] == "none: Triton's interpreter"
    parts = recorded(path)
    assert parts.keys() == {part.name for part in PARTS}
    for part in parts.values():
        assert part["status"] == "done"
        assert part["findings"]
        for finding in part["findings"]:
            assert finding["value"] == 0 or not finding["name"].endswith("/differing")
