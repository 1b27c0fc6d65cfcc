"""A precision knows the bytes of a state; one that is unknown or cannot run here is refused in a sentence."""

import pytest

from scanline.model.backends import open_backend
from scanline.model.precision import DEFERRED, PRECISIONS, PrecisionName
from scanline.model.state import State
from tests.support import small_models

CONFIG = small_models.config()


@pytest.mark.parametrize(
    ("name", "backend", "sentence"),
    [
        ("int4", None, "unknown precision 'int4'; known: exact, int8, bfloat16-state"),
        ("bfloat16-state", None, "precision 'bfloat16-state' needs a GPU"),
        ("bfloat16-state", "cpu", "precision 'bfloat16-state' needs a GPU"),
        ("bfloat16-state", "eager", "precision 'bfloat16-state' needs a GPU"),
        ("int8", "eager", "precision 'int8' needs the cpu kernel"),
    ],
)
def test_a_precision_that_is_unknown_or_cannot_run_here_is_refused(
    name: str, backend: str | None, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        open_backend(small_models.model(CONFIG), 1, precision_name=name, backend=backend)


@pytest.mark.parametrize("name", PRECISIONS)
@pytest.mark.parametrize("variant", ["plain", "pixels"])
def test_the_bytes_of_a_state_are_those_that_it_takes(name: PrecisionName, variant: str) -> None:
    config, precision = small_models.config(**small_models.VARIANTS[variant]), PRECISIONS[name]
    for device, deferred in (("cpu", 0), ("cuda", DEFERRED)):
        state = State.zeros(config, 1, state_dtype=precision.state_dtype, deferred=deferred)
        assert precision.state_bytes(config, device) == state.nbytes
