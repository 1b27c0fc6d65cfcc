"""Recorded updates: as those that are written, on a GPU as one CUDA
graph, elsewhere by falling back.
"""

import logging

import pytest
import torch

from scanline.model.training.config import TrainingConfig
from scanline.model.training.data.positions import Positions
from scanline.model.training.optimise.cuda_graph_updater import WARM_UP, RecordedUpdater
from scanline.model.training.optimise.processes import Group
from scanline.model.training.optimise.update import Updater
from tests.support import small_models
from tests.support.close import assert_close
from tests.support.kernels.gpu import DEVICE, ON_GPU

RECIPE = TrainingConfig(updates=100, batch=3, learning_rate=0.01, average=0.9)
CLASSES = (("one",), ("two",))


def trained(kind, variant, updates):
    """Return an updater after so many updates of other images, labels,
    positions and rates each, and its losses.
    """
    config = small_models.config_of(variant, classes=CLASSES)
    model = small_models.model(config).requires_grad_(True).to(DEVICE)
    updater = kind(model, RECIPE, Group(), torch.float32, False)
    losses = []
    for number in range(updates):
        batch = small_models.tensor(config, 3, seed=number).to(DEVICE)
        labels = torch.randint(
            0, len(CLASSES) + 1, (3,), generator=torch.Generator().manual_seed(number)
        )
        position = torch.arange(number % 2, config.steps, 2)[: config.steps // 2].expand(3, -1)
        drawn = Positions(position, torch.full(position.shape, 2.0)).to(torch.device(DEVICE))
        loss, _ = updater.update(
            batch,
            number,
            0.01 / (1 + number),
            labels.to(DEVICE),
            drawn,
        )
        losses.append(loss.item())
    return updater, losses


@pytest.mark.parametrize("variant", ["grey pixels", "strokes"])
def test_recorded_updates_are_those_that_are_written(variant, caplog):
    updates = WARM_UP + 3
    expected, written = trained(Updater, variant, updates)
    with caplog.at_level(logging.INFO):
        updater, recorded = trained(RecordedUpdater, variant, updates)
    (said,) = [record.message for record in caplog.records if record.name == "scanline.training"]
    assert updater.refused is not ON_GPU
    if ON_GPU:
        assert said.startswith("an update is one CUDA graph")
    else:
        assert said.startswith("training without a CUDA graph, which is slower")
        assert recorded == written
    for name, weight in expected.average.model.state_dict().items():
        assert_close(name, weight.cpu(), updater.average.model.state_dict()[name].cpu(), bound=1e-4)
