"""Requests of every kind in any order, cancelled and failing: each answer is the one that its request gets alone.

`python -m tests.support.engine.mixed_requests --requests 20000` runs more of them.
"""

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from scanline.kernels import cpu as cpu_kernels
from tests.support.engine.engine_machine import SLOTS, EngineMachine
from tests.support.engine.mixed_requests import Mix
from tests.support.engine.queued_generator import QueuedGenerator
from tests.support.sweeps import and_slow

MIXES, MANY_MIXES, EAGER_MIXES = range(30), range(1000, 1200), range(5)


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


class QueuedEngineMachine(EngineMachine):
    """The same with a device that has the next steps before the last ones have ended."""

    generator_class = QueuedGenerator


class ParticleEngineMachine(EngineMachine):
    """The same with completions of up to as many particles as there are slots."""

    most_particles = SLOTS


class QueuedParticleEngineMachine(QueuedEngineMachine):
    """Both."""

    most_particles = SLOTS


@pytest.mark.parametrize(
    "machine", and_slow([EngineMachine, QueuedParticleEngineMachine], QueuedEngineMachine, ParticleEngineMachine)
)
def test_requests_may_arrive_end_and_fail_in_any_order(machine: type[EngineMachine]) -> None:
    examples = settings().max_examples // 3  # a machine is many requests
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=20))
