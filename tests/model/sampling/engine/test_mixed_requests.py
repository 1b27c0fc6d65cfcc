"""Requests of every kind in any order, cancelled and failing: each answer is the one that its request gets alone."""

import pytest

from scanline.kernels import cpu as cpu_kernels
from tests.support.engine.mixed_requests import Mix

MORE = [*((seed, "cpu") for seed in range(1000, 1200)), *((seed, "eager") for seed in range(5))]
MIXES = [*((seed, "cpu") for seed in range(40)), *(pytest.param(*mix, marks=pytest.mark.fuzz) for mix in MORE)]


@pytest.mark.skipif(not cpu_kernels.available(), reason="the cpu kernel was not compiled")
@pytest.mark.parametrize(("seed", "backend"), MIXES)
def test_each_request_of_a_mix_gets_what_it_gets_alone(seed: int, backend: str) -> None:
    mix = Mix(seed, backend)
    if faults := mix.run():
        pytest.fail(f"{mix}:\n" + "\n".join(faults[:6]))
