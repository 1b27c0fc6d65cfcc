"""The benchmark of training runs to its end on a tiny model, in one process or two, and its last line is JSON of
consistent rates."""

import json

import pytest

from benchmarks import training
from scanline.model.training.config import TrainingConfig
from scanline.model.training.presets import Preset
from tests.support import small_models


@pytest.mark.parametrize(
    ("variant", "processes"), [("strokes", (1,)), pytest.param("pixels", (1, 2), marks=pytest.mark.slow)]
)
def test_it_prints_rates_and_their_ratio(
    variant: str, processes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = small_models.config(**small_models.VARIANTS[variant])
    monkeypatch.setitem(training.PRESETS, "tiny", Preset("mnist", config, TrainingConfig(updates=10, batch=2)))
    arguments = ["--presets", "tiny", "--precision", "float32", "--no-compile", "--threads", "1", "--seconds", "0.05"]
    monkeypatch.setattr("sys.argv", ["training", *arguments, "--processes", *map(str, processes)])
    training.main()
    *table, last = capsys.readouterr().out.splitlines()
    assert any("tiny" in line for line in table)
    results = json.loads(last)["results"]
    assert [result["processes"] for result in results] == list(processes)
    for result in results:
        assert result["positions"] == 2 * (config.bytes - config.first) / config.step_bytes
        assert result["positions_per_second"] * result["seconds_of_update"] == pytest.approx(result["positions"])
        assert result["bfloat16_product_gflops"] is None
        assert result["ratio"] == pytest.approx(result["training_gflops"] / result["float32_product_gflops"])
