"""A parameter that is not a finite number shows in the bits of its image, whatever it would do to the cost, and in no
other image's."""

import pytest
import torch

from tests.support.kernels.gpu import DEVICE, there  # isort: skip

from scanline.kernels.categorical import Categorical
from scanline.kernels.categorical.triton import sample as sample_categorical
from scanline.kernels.pixel_logistics import PixelLogistics
from scanline.kernels.pixel_logistics.triton import sample as sample_pixel_logistics
from scanline.kernels.triton.linear import Halves, linear
from tests.support.engine.slot_arrays import BATCH, Pool, arrays, copy, guiding, pool, some_slots, unguided

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, in the interpreter

Distribution = Categorical | PixelLogistics


def sample(distribution: Distribution, parameters: torch.Tensor, slots: torch.Tensor, pool: Pool) -> None:
    if isinstance(distribution, PixelLogistics):
        (base,) = there(torch.zeros(BATCH, distribution.channels))
        sample_pixel_logistics(parameters, base, slots, arrays(pool), distribution=distribution)
    else:
        sample_categorical(parameters, slots, arrays(pool), guiding(unguided()))


@pytest.mark.parametrize(
    ("distribution", "value"),
    [
        (Categorical(), float("nan")),
        (Categorical(), -float("inf")),
        (PixelLogistics(3, 1), float("inf")),
        (PixelLogistics(2, 3), float("nan")),
    ],
    ids=str,
)
def test_bits_are_not_finite_where_a_parameter_is_not(distribution: Distribution, value: float) -> None:
    (parameters,), slots, before = there(torch.randn(BATCH, distribution.width)), some_slots(), pool(6, 3)
    sound, unsound, wrong = copy(before), copy(before), parameters.clone()
    rows = torch.arange(0, BATCH, 2)
    wrong[rows, torch.linspace(0, distribution.width - 1, len(rows)).long()] = value
    sample(distribution, parameters, slots, sound)
    sample(distribution, wrong, slots, unsound)
    bad = slots[rows][slots[rows] >= 0]
    good = torch.ones(len(before["bits"]), dtype=torch.bool, device=slots.device)
    good[bad] = False
    assert unsound["bits"][bad].isnan().all()
    count = distribution.channels if isinstance(distribution, PixelLogistics) else 1
    known = before["known"][bad].gather(1, before["position"][bad, None] + torch.arange(count, device=DEVICE))
    assert unsound["known_bits"][bad[known[:, -1]]].isnan().all()
    assert unsound["known_bits"][bad[~known.any(dim=1)]].isfinite().all()
    assert all(torch.equal(sound[name][good], unsound[name][good]) for name in before)


def test_an_activation_does_not_hide_what_is_not_a_number() -> None:
    x = torch.rand(3, 16)
    x[1, 2] = float("nan")
    x, weight, bias = there(x, torch.rand(5, 16), torch.zeros(5))
    out = linear(x, Halves.of(weight), bias, torch.empty(3, 5, device=x.device), activation="relu")
    assert out.isnan().all(dim=1).tolist() == [False, True, False]
