"""The cost of attention: bytes are exact, and what is measured within a tick is bounded whatever a client asks for."""

from dataclasses import replace

import pytest

from scanline.model.sampling import attention_cost as module
from scanline.model.sampling.attention_cost import MOST_STEPS, attention_cost
from tests.support.tiny import GREY


def test_few_lengths_are_measured_and_bytes_are_those_of_all_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []
    monkeypatch.setattr(module, "_layer_seconds", lambda _, steps, __: measured.append(steps) or (1.0, steps))
    config = replace(GREY, layers=3)
    for steps in (*range(1, 2000), 10**6):
        cost = attention_cost(config, steps, "cpu")
        width, values = config.key_width, config.value_width
        heads = 4 * config.layers * config.heads
        assert (cost.state_bytes, cost.cache_bytes) == (heads * width * (values + 1), heads * steps * (width + values))
        assert (cost.linear_seconds, cost.softmax_seconds) == (3.0, pytest.approx(3 * steps))
    assert max(measured) == MOST_STEPS
    assert len(set(measured)) == 11


def test_both_are_measured() -> None:
    cost = attention_cost(GREY, 5, "cpu")
    assert cost.linear_seconds > 0
    assert cost.softmax_seconds > 0
