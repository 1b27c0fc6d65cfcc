"""The benchmark of training: rates are 6 operations for each weight and position by the time of an update."""

import pytest
import torch

from benchmarks.training import measure
from scanline.model.training import TrainingConfig
from scanline.model.training.presets import Preset
from tests.support import small_models


@pytest.mark.parametrize(("variant", "positions"), [("histogram", 3 * 19), ("pixels", 3 * 20)])
def test_rates_are_operations_by_seconds(variant: str, positions: int) -> None:
    config = small_models.config(**small_models.VARIANTS[variant])
    preset = Preset("mnist", config, TrainingConfig(updates=1, batch=2))
    found = measure(preset, torch.float32, compiled=False, batch=3, seconds=0.0)
    assert found["positions"] == positions == 3 * config.steps
    assert found["weights"] == small_models.model(config).parameter_count
    assert found["positions_per_second"] == pytest.approx(positions / found["seconds_of_update"])
    assert found["training_gflops"] == pytest.approx(6e-9 * found["weights"] * found["positions_per_second"])
    assert found["ratio"] == pytest.approx(found["training_gflops"] / found["float32_product_gflops"])
    assert found["bfloat16_product_gflops"] is None
    assert measure(preset, torch.float32, False, None, 0.0)["positions"] == 2 * config.steps
