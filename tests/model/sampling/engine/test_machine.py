"""Requests of every kind arrive, are cancelled and fail in any order: the state machine of tests/support on both kinds
of devices, with particles and without."""

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.support.engine.engine_machine import SLOTS, EngineMachine
from tests.support.engine.queued_generator import QueuedGenerator
from tests.support.sweeps import and_slow


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
