"""The torch backend computes tiles of slots: of a size that suits the device, and none without images."""

import numpy as np
import pytest
import torch

from scanline.model.backends import eager
from scanline.model.backends.eager import EagerBackend
from scanline.model.backends.slots import SlotPool
from tests.support import small_models


@pytest.mark.parametrize(("capability", "rows"), [((7, 5), 128), ((8, 0), 1024)])
def test_one_image_costs_one_tile_which_is_small_on_cards_that_only_torch_runs_on(
    capability: tuple[int, int], rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(eager, "TILE", eager.tile(torch.device("cuda")))
    model = small_models.model(small_models.config(height=1, width=2, layers=1, heads=1))
    computed, step = [], model.step
    monkeypatch.setattr(model, "step", lambda images, *rest: computed.append(len(images)) or step(images, *rest))
    backend, pool = EagerBackend(model), SlotPool.empty(model.config, 2 * rows)
    pool.state.position[rows] = 0  # of the second tile
    backend.advance(pool, np.array([rows]), model.config.steps).wait()
    assert computed == [rows] * model.config.steps
    assert pool.state.position[rows] == model.config.bytes
