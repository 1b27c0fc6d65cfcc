"""Whole == split and resumed: a sequence cut anywhere goes on from its state as if it had not been cut."""

import pytest
import torch

from scanline.model.state import State
from tests.support import small_models
from tests.support.close import assert_close


@pytest.mark.parametrize(
    ("variant", "cut"),
    [(variant, cut) for variant in ("plain", "authors", "strokes") for cut in (2, 19)]
    + [(variant, cut) for variant in ("pixels", "waves of pixels") for cut in (3, 57)],
)
def test_parallel_resumed_from_its_state_and_by_steps(variant: str, cut: int) -> None:
    model = small_models.model(small_models.config(**small_models.VARIANTS[variant]))
    images = torch.from_numpy(small_models.images(model.config, 2))
    state, stepped = State.zeros(model.config, 2), State.zeros(model.config, 2)
    expected, first = model.parallel(images), model.parallel(images, state, cut)
    assert_close("parameters", expected, torch.cat((first, model.parallel(images, state)), dim=1))
    first = model.parallel(images, stepped, cut)
    steps = [model.step(images, stepped) for _ in range(cut, model.config.bytes, model.config.step_bytes)]
    assert_close("parameters", expected, torch.cat((first, torch.stack(steps, dim=1)), dim=1))


@pytest.mark.parametrize(("length", "stop"), [(19, 10), (20, 21), (20, 6), (20, 5)])
def test_parallel_beyond_the_image_or_over_nothing_is_refused(length: int, stop: int) -> None:
    model = small_models.model(small_models.config())
    state = State.zeros(model.config, 1)
    state.position.fill_(6)
    with pytest.raises(ValueError, match="cannot run bytes 6 to"):
        model.parallel(torch.zeros(1, length, dtype=torch.uint8), state, stop)


def test_parallel_of_half_a_pixel_is_refused() -> None:
    model = small_models.model(small_models.config(**small_models.VARIANTS["pixels"]))
    with pytest.raises(ValueError, match="cannot run bytes 0 to 7"):
        model.parallel(torch.zeros(1, 60, dtype=torch.uint8), State.zeros(model.config, 1), 7)
