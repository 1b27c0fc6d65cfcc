"""Images of the CPU kernel: bytes follow the network's probabilities, and known bytes are kept."""

import numpy as np
import pytest
import torch

from scanline.kernels import cpu as cpu_kernels
from scanline.model.backends.cpu import CpuBackend
from scanline.model.backends.prefill_batch import PrefillBatch
from scanline.model.backends.slots import SlotPool
from scanline.model.config import ModelConfig
from scanline.model.network.transformer import Transformer
from scanline.model.state import State
from tests.support import small_models
from tests.support.kernels.pixel_logistics import assert_fits, conditionals

pytestmark = pytest.mark.skipif(not cpu_kernels.available(), reason="the cpu kernel was not compiled")


def undecided_model(variant: str) -> Transformer:
    """Whose distributions have several likely values, none of them all beyond the range of a byte."""
    model = small_models.model(small_models.config(**small_models.VARIANTS[variant]))
    for part in (model.head, *([model.skip] if variant.endswith("pixels") else [])):
        part.weight.mul_(0.2)
        part.bias.mul_(0.2)
    return model


def painted_last_step(
    model: Transformer, count: int, temperature: float, known: int = 0
) -> tuple[SlotPool, torch.Tensor]:
    """Slots of one image each, all alike but for its last step, which is painted but for its first `known` bytes; and
    the parameters [P] of that step."""
    config = model.config
    image = torch.from_numpy(small_models.images(config, 1))
    backend, state, prefix = CpuBackend(model, 1), State.zeros(config, 1), config.bytes - config.step_bytes
    backend.prefill(PrefillBatch.of(image, state, np.array([prefix])))
    slots = SlotPool.empty(config, count)
    slots.state.put(torch.arange(count), state)
    slots.images.copy_(image.expand_as(slots.images))
    slots.known[:, : prefix + known] = True
    slots.index.copy_(torch.arange(count))
    slots.temperature.fill_(temperature)
    _, parameters = backend.prefill_parameters(PrefillBatch.of(image, state, np.array([config.bytes])))
    backend.advance(slots, slots.in_flight(), 1)
    backend.close()
    assert slots.state.position.tolist() == [config.bytes] * count
    assert torch.equal(slots.images[:, : prefix + known], image[:, : prefix + known].expand(count, -1))
    return slots, parameters[0, 0]


def probabilities(config: ModelConfig, parameters: torch.Tensor, pixel: list[int], temperature: float) -> torch.Tensor:
    """Return [step_bytes, 256] float64: the probabilities of each byte of a step, given the earlier ones in `pixel`."""
    if config.predicts == "categorical":
        return torch.softmax(parameters.double() / temperature, dim=0).unsqueeze(0)
    return conditionals(parameters, config.components, pixel, temperature)


@pytest.mark.parametrize(
    ("variant", "temperature"),
    [("categorical", 0.7), ("strokes", 1.0), ("grey pixels", 0.7), ("pixels", 1.0), ("waves of pixels", 0.7)],
)
def test_painted_bytes_follow_the_probabilities_given_what_came_before(variant: str, temperature: float) -> None:
    model, count = undecided_model(variant), 30_000
    config = model.config
    for channel in range(config.step_bytes):
        slots, parameters = painted_last_step(model, count, temperature, known=channel)
        step = slots.images[:, -config.step_bytes :]
        wanted = probabilities(config, parameters, step[0].tolist(), temperature)[channel]
        assert (wanted * count > 10).sum() > 20
        assert_fits(torch.bincount(step[:, channel].long(), minlength=256).double(), wanted)
