"""Precisions: found by name, sized as the states that they store, refused where they cannot run."""

import pytest

from scanline.model.backends import choose
from scanline.model.precision import PRECISIONS, precision
from scanline.model.state import State
from tests.support import small_models

CONFIG = small_models.config()


@pytest.mark.parametrize("name", PRECISIONS)
def test_state_bytes_are_those_of_a_state(name: str) -> None:
    state = State.zeros(CONFIG, 1, state_dtype=precision(name).state_dtype)
    assert precision(name).state_bytes(CONFIG) == state.s.nbytes + state.z.nbytes


def test_an_unknown_name_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown precision 'int4'; known: exact, int8, float16-state"):
        precision("int4")


@pytest.mark.parametrize("backend", [None, "cpu", "eager"])
def test_states_in_float16_need_a_gpu(backend: str | None) -> None:
    with pytest.raises(ValueError, match="precision 'float16-state' needs a GPU"):
        choose(small_models.model(CONFIG), precision_name="float16-state", backend=backend)


def test_int8_needs_the_native_step() -> None:
    with pytest.raises(ValueError, match="precision 'int8' needs the native step, on a CPU"):
        choose(small_models.model(CONFIG), precision_name="int8", backend="eager")
