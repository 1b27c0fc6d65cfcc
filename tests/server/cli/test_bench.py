"""scanline bench: one run of a tiny model as tables and JSON; wrong
options are reported before any work.
"""

import json

import pytest

from scanline.kernels import cpu as cpu_kernels
from scanline.model.bench import correctness, measure
from scanline.model.training import TrainingConfig
from scanline.model.training.presets import PRESETS, Preset
from tests.support import small_models
from tests.support.commands import done, refused

ALL = {
    "benchmark",
    "schema",
    "date",
    "machine",
    "others_share_of_cpu",
    "commit",
    "torch",
    "python",
    "configuration",
    "step",
    "state_bytes_per_image",
    "checked",
    "ceilings",
    "one_image",
    "bulk",
    "prefill",
    "scoring",
}
RATE = {
    "batch",
    "step_ms_median",
    "step_ms_p99",
    "images_per_second",
    "passes",
    "rows",
    "wrong_guesses",
    "images_by_products",
    "images_by_state_traffic",
    "of_matrix_rate",
    "calls",
}
SHORT = ("bench", "--device", "cpu", "--seconds", 0.01)


@pytest.fixture(autouse=True, scope="module")
def small_measurements():
    """Ceilings that are measured quickly, and tiny presets."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "COPY_BYTES", 2**16)
        for name, variant in (("tiny", "plain"), ("tiny pixels", "waves of pixels")):
            config = small_models.config_of(variant)
            patch.setitem(PRESETS, name, Preset("mnist", config, TrainingConfig(updates=1)))
        yield


def test_the_json_object_has_every_part():
    out = done(*SHORT, "--random", "tiny pixels", "--batches", "1,3", "--json")
    assert out.count("\n") == 1
    found = json.loads(out)
    assert set(found) == ALL
    configuration = found["configuration"]
    assert found["checked"]["batches"] == configuration["batches"] == [1, 3]
    assert configuration["backend"] in ("cpu", "eager")
    assert bool(configuration["fallbacks"]) == (configuration["backend"] != "cpu")
    assert set(found["ceilings"]) == {"flop_per_step", "matrix_rows", "matrix_flop", "copy_bytes"}
    assert (found["step"], found["prefill"]["bytes_of_each"]) == (
        {"bytes": 3, "of_an_image": 20},
        30,
    )
    assert [row["batch"] for row in found["bulk"]] == [1, 3]
    assert all(set(row) == RATE for row in found["bulk"])


def test_the_tables_name_the_backend_and_the_step(grey_directory, monkeypatch):
    shown = done(*SHORT, "--random", "tiny pixels", "--batches", "1,2")
    words = [
        "checked: the two views differ by",
        "torch matmul:",
        "memory copy:",
        "one image, alone:",
        "vs torch",
    ]
    words += ["prefill:", "a step paints a pixel, 3 bytes, 20 steps an image"]
    assert [part for part in words if part not in shown] == []
    short = (
        *SHORT,
        "--model",
        grey_directory,
        "--batches",
        1,
        "--skip",
        "latency,bulk,reading",
    )
    assert "backend eager, torch (cpu); precision exact" in done(*short, "--backend", "eager")
    monkeypatch.setattr(cpu_kernels, "unavailable_reason", lambda: "it was not compiled")
    assert "not used: cpu: it was not compiled" in done(*short)


def test_parts_can_be_skipped():
    command = (*SHORT, "--random", "tiny", "--batches", 2, "--skip", "latency,bulk,reading")
    result = json.loads(done(*command, "--json"))
    parts = {key for key in ALL if result[key] is None} - {"commit", "others_share_of_cpu"}
    assert parts == {"one_image", "bulk", "prefill", "scoring"}
    assert "torch matmul:" in done(*command)


def test_nothing_is_measured_after_a_failed_check(grey_directory, monkeypatch):
    monkeypatch.setattr(correctness, "views_differ", lambda *_: 0.5)
    sentence = "recurrent and parallel views differ by 0.5 bits/dim, more than 0.001"
    assert refused(*SHORT, "--model", grey_directory, "--batches", 1) == sentence
