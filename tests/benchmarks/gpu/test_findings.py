"""Findings of a GPU run: differences of bits are seen, launches are listed."""

from dataclasses import replace

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed")

from benchmarks.gpu.correctness import Snapshot, compare
from benchmarks.gpu.kernels import by_name, by_place
from benchmarks.gpu.tests_here import files_of_tests


def test_the_tests_that_run_on_a_gpu_are_found_by_what_they_import() -> None:
    files = files_of_tests()
    for kernel in ("attention", "step", "triton"):
        assert any(file.startswith(f"tests/kernels/{kernel}/test_") for file in files)
    assert "tests/model/backends/cuda/test_painting.py" in files
    assert not any(file.startswith("tests/benchmarks") for file in files)


def test_launches_are_listed_by_name_and_by_their_place_in_a_step() -> None:
    step = [("_embed", 2.0), ("_linear", 5.0), ("_step", 9.0), ("_linear", 7.0)]
    later = [(kernel, time + 1) for kernel, time in step]
    names = {finding.name: finding.value for finding in by_name("p", step + later, 2)}
    assert names == {"p/_linear": 13.0, "p/_step": 9.5, "p/_embed": 2.5}
    places = [(finding.note, finding.value) for finding in by_place("p", step + later, 2)]
    assert places == [("_embed", 2.5), ("_linear", 5.5), ("_step", 9.5), ("_linear", 7.5)]
    for timed in ([], step + later[1:], step + later[::-1]):
        (finding,) = by_place("p", timed, 2)
        assert finding.value is None


def snapshot(images: int) -> Snapshot:
    torch.manual_seed(0)
    return Snapshot(
        images=torch.randint(0, 256, (5, 7), dtype=torch.uint8)[:images],
        bits=torch.rand(5, dtype=torch.float64)[:images],
        s=torch.rand(2, 5, 3, 4, 4)[:, :images],
        z=torch.rand(2, 5, 3, 4)[:, :images],
    )


def test_images_of_both_are_compared_and_equal_ones_do_not_differ() -> None:
    assert snapshot(3).differences(snapshot(5)) == {"images": 0, "bits": 0, "s": 0, "z": 0}


@pytest.mark.parametrize("name", ["bits", "s", "z"])
def test_a_difference_in_the_last_bit_of_one_number_is_seen(name: str) -> None:
    mine = snapshot(4)
    changed = getattr(mine, name).clone()
    number = changed[2] if name == "bits" else changed[1, 2].flatten()[3]
    number.copy_(torch.nextafter(number, torch.tensor(9.0, dtype=number.dtype)))
    theirs = replace(mine, **{name: changed})
    assert mine.differences(theirs) == {"images": 0, "bits": 0, "s": 0, "z": 0, name: 1}


def test_later_snapshots_are_compared_with_the_largest_before() -> None:
    expected: dict[int, Snapshot] = {}
    assert list(compare("one", {1: snapshot(1)}, expected)) == []
    (finding,) = compare("three", {1: snapshot(3)}, expected)
    assert (finding.name, finding.value) == ("three/after_1_steps/differing", 0)
    assert "of 1 images compared" in finding.note
    assert len(expected[1].images) == 3
