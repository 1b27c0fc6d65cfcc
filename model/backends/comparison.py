"""Compares what a backend has computed with what its reference has."""

import torch

from scanline.model.backends.slots import ARRAYS, WEIGHING, SlotPool
from scanline.model.base.state import NUMBERS


class WrongResultsError(ArithmeticError):
    """The backend computes something else than it should; the message says what, without a full
    stop."""


def assert_same_slots(expected: SlotPool, result: SlotPool, what: str) -> None:
    """Raise WrongResultsError where slots on a device hold something else than those expected, on
    the CPU."""
    computed = _arrays(result)
    for name, reference in _arrays(expected).items():
        # Sums of logarithms may be rounded differently on a device; all that is copied may not.
        tolerance = 1e-9 if name in WEIGHING else 0.0
        if not torch.allclose(reference, computed[name], rtol=tolerance, atol=tolerance):
            raise WrongResultsError(
                f"{what} of particles: {name.replace('_', ' ')} are not those of the reference"
            )


def _arrays(pool: SlotPool) -> dict[str, torch.Tensor]:
    arrays = {name: getattr(pool.state, name) for name in NUMBERS}
    arrays |= {name: getattr(pool, name) for name in ARRAYS}
    return {name: array.cpu().nan_to_num() for name, array in arrays.items()}


def assert_close(
    expected: dict[str, torch.Tensor], result: dict[str, torch.Tensor], bound: float, what: str
) -> None:
    for name, reference in expected.items():
        # What the reference itself cannot compute, with the weights of a
        # training that diverges, says nothing.
        finite = reference.isfinite()
        if not finite.any():  # or there are none, as of a model that convolves nothing
            continue
        right = reference[finite].double()
        computed = result[name][finite].double()
        off = (right - computed).abs()
        size = right.square().mean().sqrt()
        if not (off <= bound * (size + right.abs())).all():  # NaN is not
            raise WrongResultsError(
                f"{what}: {name} is off by {off.max():.2g} where values are about {size:.2g}"
            )
