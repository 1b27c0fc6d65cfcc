"""The ceilings: the products are the model's own, and the best rate of a run is the one that counts."""

import pytest
from torch import nn

from scanline.model.bench.ceilings import Ceilings, copy_rate, flop_per_byte, product_shapes, products_seconds
from scanline.model.bench.machine import durations
from tests.support import small_models


@pytest.mark.parametrize("variant", ["plain", "authors", "anchored colour"])
def test_products_are_those_of_the_network(variant: str) -> None:
    model = small_models.model(small_models.config(**small_models.VARIANTS[variant]))
    shapes = [(part.in_features, part.out_features) for part in model.modules() if isinstance(part, nn.Linear)]
    assert sorted(product_shapes(model.config)) == sorted(shapes)
    assert flop_per_byte(model.config) == 2 * sum(part.weight.numel() for part in _linear(model))


def test_the_best_number_of_rows_is_the_ceiling() -> None:
    found = Ceilings(flop_per_byte=100, products_seconds={1: 1.0, 64: 2.0, 256: 16.0}, square_flop=1.0, copy_bytes=1.0)
    assert found.best_rows == 64
    assert found.matrix_flop == 64 * 100 / 2.0


def test_rates_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scanline.model.bench.ceilings.COPY_BYTES", 2**16)
    assert copy_rate(seconds=0.0) > 0
    assert products_seconds([(3, 5), (5, 2)], 4, seconds=0.0) > 0


def test_a_first_call_and_what_prepares_are_not_counted() -> None:
    calls: list[str] = []
    times = durations(lambda: calls.append("call"), 0.0, least=2, prepare=lambda: calls.append("prepare"))
    assert len(times) == 2
    assert calls == ["prepare", "call"] * 3


def _linear(model: nn.Module) -> list[nn.Linear]:
    return [part for part in model.modules() if isinstance(part, nn.Linear)]
