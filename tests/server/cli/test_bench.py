"""scanline bench: one run of a tiny model as tables and JSON; wrong options are reported before any work."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scanline.kernels import cpu as cpu_kernels
from scanline.model.bench import correctness, measure, memory_over_position, run
from scanline.model.bench.baselines import missing_library
from scanline.model.training import TrainingConfig
from scanline.model.training.presets import PRESETS, Preset
from tests.support import small_models
from tests.support.commands import done, refused

ALL = {
    *("benchmark", "schema", "date", "machine", "others_share_of_cpu", "commit", "torch", "python", "configuration"),
    *("step", "state_bytes_per_image", "checked", "ceilings", "one_image", "bulk", "prefill", "scoring"),
    *("over_position", "left_out"),
}
RATE = {"step_ms_median", "step_ms_p99", "images_per_second", "of_matrix_rate", "calls"}
SHORT = ("bench", "--device", "cpu", "--seconds", 0.01)

WRONG = [  # the options, the message
    ("--random imagenet", "--random: unknown preset 'imagenet'; known: "),
    ("--random mnist --model mnist-small", "--model and --random exclude each other"),
    ("--batches 1,0", "--batches: a batch has at least one image, not 0"),
    ("--batches many", "--batches: give whole numbers separated by commas, not 'many'"),
    ("--seconds 0", "--seconds: must be finite and greater than 0, not 0.0"),
    ("--skip authors,lunch", "--skip: unknown part 'lunch'; known: latency, bulk,"),
]


@pytest.fixture(autouse=True, scope="module")
def small_measurements() -> Iterator[None]:
    """Ceilings that are measured quickly, and a tiny preset."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "COPY_BYTES", 2**16)
        patch.setattr(measure, "SQUARE", {"cpu": 16})
        patch.setattr(memory_over_position, "IMAGES", {"cpu": 4})
        patch.setitem(PRESETS, "tiny", Preset("mnist", small_models.config(), TrainingConfig(updates=1)))
        pixels = small_models.config(**small_models.VARIANTS["waves of pixels"])
        patch.setitem(PRESETS, "tiny pixels", Preset("cifar10", pixels, TrainingConfig(updates=1)))
        yield


@pytest.fixture(scope="module")
def found(grey_directory: Path) -> dict[str, Any]:
    """The one JSON object of a whole run."""
    out = done(*SHORT, "--model", grey_directory, "--batches", "1,3", "--json")
    assert out.count("\n") == 1
    parsed: dict[str, Any] = json.loads(out)
    return parsed


def test_the_json_object_has_every_part(found: dict[str, Any]) -> None:
    assert set(found) == ALL
    assert found["checked"]["batches"] == found["configuration"]["batches"] == [1, 3]
    assert set(found["ceilings"]["products_ms"]) >= {"1", "3"}
    assert found["prefill"]["bytes_of_each"] == 17
    scoring = found["scoring"]
    assert scoring["images_per_second"] == pytest.approx(scoring["images"] / scoring["seconds_median"])
    assert found["one_image"]["ours"]["seconds_median"] <= found["one_image"]["ours"]["seconds_p99"]
    assert [row["batch"] for row in found["bulk"]] == [1, 3]
    for row in found["bulk"]:
        assert set(row["ours"]) == set(row["softmax"]) == RATE
        assert (row["authors"] is None) == (missing_library() is not None)
    assert len({look["tensor_bytes"] for look in found["over_position"]["ours"]["looks"]}) == 1


def test_the_backend_is_reported_and_why_it_is_not_a_faster_one(
    found: dict[str, Any], grey_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = found["configuration"]
    assert configuration["backend"] in ("cpu", "eager")
    assert bool(configuration["fallbacks"]) == (configuration["backend"] != "cpu")
    short = (*SHORT, "--model", grey_directory, "--batches", 1, "--skip", "latency,bulk,reading,position")
    assert "backend eager, torch (cpu); precision exact" in done(*short, "--backend", "eager")
    monkeypatch.setattr(cpu_kernels, "unavailable_reason", lambda: "it was not compiled")
    assert "not used: cpu: it was not compiled" in done(*short)


def test_parts_can_be_skipped() -> None:
    skip = "latency,reading,position,authors,softmax"
    out = done(*SHORT, "--random", "tiny", "--batches", 2, "--skip", skip, "--json")
    result = json.loads(out)
    nothing = {key for key in ALL if result[key] is None}
    assert nothing - {"commit", "others_share_of_cpu"} == {"one_image", "prefill", "scoring", "over_position"}
    assert result["bulk"][0]["authors"] is result["bulk"][0]["softmax"] is None
    assert result["left_out"] == []
    skipped = done(*SHORT, "--random", "tiny", "--batches", 2, "--skip", f"{skip},bulk")
    assert "torch matmul:" in skipped


def test_a_model_of_pixels_is_measured_by_its_steps_and_the_authors_library_by_bytes() -> None:
    command = (*SHORT, "--random", "tiny pixels", "--batches", "1,2")
    result = json.loads(done(*command, "--json"))
    assert result["step"] == {"bytes": 3, "of_an_image": 20}
    assert result["prefill"]["bytes_of_each"] == 30
    assert [look["position"] % 3 for look in result["over_position"]["ours"]["looks"]] == [0] * 8
    steps = {"ours": 20, "softmax": 20} | ({} if missing_library() else {"authors": 60})
    for row in result["bulk"]:
        for program, of_an_image in steps.items():
            seconds = of_an_image * row[program]["step_ms_median"] / 1e3
            assert row[program]["images_per_second"] == pytest.approx(row["batch"] / seconds)
    one = result["bulk"][0]
    assert result["one_image"]["softmax"] == pytest.approx(1 / one["softmax"]["images_per_second"])
    shown = done(*command)
    words = ["checked: the two views differ by", "torch matmul:", "memory copy:", "one image, alone:", "speed-up"]
    assert all(part in shown for part in (*words, "prefill:", "over position"))
    assert "a step paints a pixel, 3 bytes, 20 steps an image" in shown
    assert ("a byte a step: 60 steps" in shown) == (missing_library() is None)


def test_a_baseline_that_is_not_installed_is_left_out_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "missing_library", lambda: "it is not here")
    command = (*SHORT, "--random", "tiny", "--batches", "1,2", "--skip", "latency,reading,position,softmax")
    result = json.loads(done(*command, "--json"))
    assert [row["authors"] for row in result["bulk"]] == [None, None]
    assert result["left_out"] == ["it is not here"]
    assert "it is not here" in done(*command)


def test_nothing_is_measured_after_a_failed_check(grey_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(correctness, "views_differ", lambda *_: 0.5)
    sentence = "recurrent steps and the parallel view differ by 0.5 bits/dim, more than 0.001"
    assert refused(*SHORT, "--model", grey_directory, "--batches", 1) == sentence


def test_wrong_options_are_reported_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for options, message in WRONG:
        assert message in refused("bench", *options.split())
    assert list(tmp_path.iterdir()) == []
