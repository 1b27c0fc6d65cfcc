"""Requests of every kind in any order, cancelled and failing: each answer is the one that its request gets alone.

`python -m tests.support.engine.mixed_requests --requests 20000` runs more of them.
"""

import pytest

from scanline.kernels import cpu as cpu_kernels
from tests.support.engine.mixed_requests import Mix

MIXES, MANY_MIXES, EAGER_MIXES = range(40), range(1000, 1200), range(5)


def assert_no_faults(mix: Mix) -> None:
    __tracebackhide__ = True
    if faults := mix.run():
        pytest.fail(f"{mix}:\n" + "\n".join(faults[:6]))


@pytest.mark.skipif(not cpu_kernels.available(), reason="the cpu kernel was not compiled")
@pytest.mark.parametrize("seed", MIXES)
def test_each_request_of_a_mix_gets_what_it_gets_alone(seed: int) -> None:
    assert_no_faults(Mix(seed))


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", EAGER_MIXES)
def test_each_request_of_a_mix_gets_what_it_gets_alone_from_torch(seed: int) -> None:
    assert_no_faults(Mix(seed, "eager"))


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", MANY_MIXES)
def test_each_request_of_many_mixes_gets_what_it_gets_alone(seed: int) -> None:
    assert_no_faults(Mix(seed))
