"""A run that continues from a model begins with what that model computes, whatever classes either knows."""

from pathlib import Path

import pytest
import torch

from scanline.model.formats.checkpoint import save_model
from scanline.model.network.transformer import Transformer
from scanline.model.training.first_weights import first_weights
from tests.support import small_models
from tests.support.close import assert_close

ANIMALS = (("cat",), ("dog", "hound"))
MORE = (("dog",), ("owl",), ("cat",))


def parameters(model: Transformer, label: int) -> torch.Tensor:
    """What the model predicts of two images with a label."""
    images = torch.from_numpy(small_models.images(model.config, 2))
    return model.parallel(images, labels=torch.full((2,), label))


def continued(
    directory: Path, variant: str, before: tuple[tuple[str, ...], ...], after: tuple[tuple[str, ...], ...]
) -> tuple[Transformer, Transformer]:
    """A model with the classes `before`, and one that continues from its saved weights with the classes `after`."""
    model = small_models.model(small_models.config(**small_models.VARIANTS[variant], classes=before))
    save_model(model, directory, torch.float32)
    config, weights = first_weights(directory, after)
    assert config.classes == after
    new = Transformer(config)
    new.load_state_dict(weights)
    return model, new


@pytest.mark.parametrize("variant", ["plain", "authors", "strokes"])
def test_a_model_without_classes_paints_the_same_with_each_of_them(tmp_path: Path, variant: str) -> None:
    old, new = continued(tmp_path, variant, (), ANIMALS)
    assert new.classes.shape == (3, new.config.model_width)
    for label in range(3):
        assert torch.equal(parameters(old, 0), parameters(new, label))


def test_classes_keep_their_vectors_by_name_and_new_ones_begin_without_a_class(tmp_path: Path) -> None:
    old, new = continued(tmp_path, "strokes", ANIMALS, MORE)
    for label, before in ((0, 0), (1, 2), (2, 0), (3, 1)):
        assert torch.equal(parameters(old, before), parameters(new, label))
    assert not torch.equal(parameters(old, 1), parameters(old, 2))


def test_the_same_classes_keep_all_weights(tmp_path: Path) -> None:
    old, new = continued(tmp_path, "plain", ANIMALS, ANIMALS)
    assert all(map(torch.equal, old.state_dict().values(), new.state_dict().values()))


@pytest.mark.parametrize("variant", ["plain", "concat", "sincos", "colour", "strokes", "pixels"])
def test_without_its_classes_a_model_paints_as_it_did_without_one(tmp_path: Path, variant: str) -> None:
    old, new = continued(tmp_path, variant, ANIMALS, ())
    assert "classes" not in new.state_dict()
    assert_close(variant, parameters(old, 0), parameters(new, 0))


def test_a_model_that_cannot_do_without_its_classes_says_so(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be trained without its classes: its positions have no weights"):
        continued(tmp_path, "authors", ANIMALS, ())
