"""The class of an image is a vector of the network that is added to the input of each of its steps."""

import pytest
import torch

from scanline.model.network.transformer import Transformer
from scanline.model.state import State
from tests.support import small_models
from tests.support.close import assert_close

VARIANTS = ["plain", "concat", "histogram", "window", "waves of pixels"]


@pytest.fixture(params=VARIANTS)
def model(request: pytest.FixtureRequest) -> Transformer:
    return small_models.model(small_models.config(**small_models.VARIANTS[request.param], **small_models.CLASSES))


def test_both_views_add_the_vector_of_each_image_s_label(model: Transformer) -> None:
    images, labels = torch.from_numpy(small_models.images(model.config, 4)), torch.tensor([3, 0, 1, 3])
    state, stepped = (State.zeros(model.config, 4) for _ in range(2))
    found = model.parallel(images, state, labels=labels)
    steps = [model.step(images, stepped, labels) for _ in range(model.config.steps)]
    assert_close("parameters", torch.stack(steps, dim=1), found)
    assert_close("s", stepped.s, state.s)
    for row, label in enumerate(labels.tolist()):
        one = small_models.model(model.config)
        one.classes[0] = model.classes[label]  # what an image without a label then has
        assert_close(f"label {label}", one.parallel(images[row : row + 1]), found[row : row + 1])


def test_no_labels_are_label_0(model: Transformer) -> None:
    images = torch.from_numpy(small_models.images(model.config, 2))
    zeros = torch.zeros(2, dtype=torch.int64)
    assert torch.equal(model.parallel(images), model.parallel(images, labels=zeros))
    states = [State.zeros(model.config, 2) for _ in range(2)]
    assert torch.equal(model.step(images, states[0]), model.step(images, states[1], zeros))


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_new_model_with_classes_starts_as_the_same_without(variant: str) -> None:
    config = small_models.config(**small_models.VARIANTS[variant])
    torch.manual_seed(4)
    plain = Transformer(config)
    torch.manual_seed(4)
    model = Transformer(small_models.config(**small_models.VARIANTS[variant], **small_models.CLASSES))
    assert "classes" not in plain.state_dict()
    assert not model.classes.any()
    for name, weights in plain.state_dict().items():
        assert torch.equal(weights, model.state_dict()[name]), name
    images, labels = torch.from_numpy(small_models.images(config, 3)), torch.tensor([0, 2, 3])
    assert torch.equal(plain.parallel(images), model.parallel(images, labels=labels))
    assert torch.equal(plain.parallel(images), plain.parallel(images, labels=labels))


def test_the_gradient_reaches_the_rows_of_the_labels_alone() -> None:
    model = small_models.model(small_models.config(**small_models.CLASSES)).requires_grad_(True)
    images = torch.from_numpy(small_models.images(model.config, 3))
    model.parallel(images, labels=torch.tensor([1, 3, 1])).square().mean().backward()
    assert model.classes.grad is not None
    assert model.classes.grad.abs().sum(dim=1).ne(0).tolist() == [False, True, False, True]
