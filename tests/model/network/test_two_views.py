"""Parallel == recurrent: the two views of a network are one function, whatever its options."""

import pytest
import torch

from scanline.model.state import State
from tests.support import small_models
from tests.support.close import assert_close


@pytest.fixture(params=small_models.CORE)
def model(request: pytest.FixtureRequest):
    return small_models.model(small_models.config(**small_models.VARIANTS[request.param]))


def unrolled(model, images: torch.Tensor) -> tuple[torch.Tensor, State]:
    """Parameters [B, n, P] of every step, one after the other, and the state after them."""
    state = State.zeros(model.config, len(images))
    steps = [model.step(images, state) for _ in range(model.config.steps)]
    return torch.stack(steps, dim=1), state


@pytest.mark.parametrize("variant", small_models.VARIANTS)
def test_parameters_and_final_states_agree(variant: str) -> None:
    model = small_models.model(small_models.config(**small_models.VARIANTS[variant]))
    images = torch.from_numpy(small_models.images(model.config, 3))
    parameters, stepped = unrolled(model, images)
    state = State.zeros(model.config, 3)
    assert_close("parameters", parameters, model.parallel(images, state))
    assert_close("s", stepped.s, state.s)
    assert_close("z", stepped.z, state.z)
    assert torch.equal(stepped.position, state.position)


def test_no_byte_is_read_before_it_is_painted(model) -> None:
    images = torch.from_numpy(small_models.images(model.config, 2))
    before = model.parallel(images)
    size = model.config.step_bytes
    place = model.config.bytes // 2 // size * size
    images[:, place:] ^= 255
    after = model.parallel(images)
    predicted = place // size + 1 - model.config.first  # the step at `place` is still predicted from those before it
    assert torch.equal(before[:, :predicted], after[:, :predicted])
    assert not torch.equal(before[:, predicted:], after[:, predicted:])


def test_images_at_different_positions_step_together(model) -> None:
    images = torch.from_numpy(small_models.images(model.config, 2))
    whole = model.parallel(images)
    state, ahead = State.zeros(model.config, 2), State.zeros(model.config, 1)
    for _ in range(5):
        model.step(images[1:], ahead)
    state.put(torch.tensor([1]), ahead)
    assert_close("parameters", whole[[0, 1], [0, 5]], model.step(images, state))


def test_a_finished_image_stays_at_its_end() -> None:
    model = small_models.model(small_models.config())
    state = State.zeros(model.config, 1)
    state.position.fill_(model.config.bytes)
    model.step(torch.from_numpy(small_models.images(model.config, 1)), state)
    assert state.position.tolist() == [model.config.bytes]
