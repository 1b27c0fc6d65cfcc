"""A run that continues from a model begins with what that model computes, whatever classes either knows and
however many layers are added."""

from pathlib import Path

import pytest
import torch

from scanline.model.formats.checkpoint import save_model
from scanline.model.network.transformer import Transformer
from scanline.model.training.run.first_weights import first_weights
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


@pytest.mark.parametrize("variant", ["authors", "strokes"])
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
    old, new = continued(tmp_path, "plain", ANIMALS, ANIMALS)
    assert all(map(torch.equal, old.state_dict().values(), new.state_dict().values()))


@pytest.mark.parametrize("variant", ["plain", "concat", "strokes"])
def test_without_its_classes_a_model_paints_as_it_did_without_one(tmp_path: Path, variant: str) -> None:
    old, new = continued(tmp_path, variant, ANIMALS, ())
    assert "classes" not in new.state_dict()
    assert_close(variant, parameters(old, 0), parameters(new, 0))


def test_a_model_that_cannot_do_without_its_classes_says_so(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be trained without its classes: its positions have no weights"):
        continued(tmp_path, "authors", ANIMALS, ())


@pytest.mark.parametrize("variant", ["plain", "strokes"])
def test_layers_are_added_on_top_and_paint_the_same_until_they_learn(tmp_path: Path, variant: str) -> None:
    old = small_models.model(small_models.config(**small_models.VARIANTS[variant], classes=ANIMALS))
    save_model(old, tmp_path, torch.float32)
    config, weights = first_weights(tmp_path, MORE, old.config.layers + 2, seed=1)
    assert config.layers == old.config.layers + 2
    new = Transformer(config)
    new.load_state_dict(weights)
    assert torch.equal(parameters(old, 1), parameters(new, 3))
    parameters(new, 0).square().sum().backward()
    for layer in new.layers[-2:]:
        assert layer.attention_out.weight.grad.norm() > 0
        assert layer.feed_forward_out.weight.grad.norm() > 0


def test_added_layers_are_drawn_from_the_seed_alone(tmp_path: Path) -> None:
    old = small_models.model(small_models.config())
    save_model(old, tmp_path, torch.float32)
    drawn = [first_weights(tmp_path, (), old.config.layers + 1, seed)[1] for seed in (1, 1, 2)]
    name = f"layers.{old.config.layers}.query_key_value.weight"
    assert torch.equal(drawn[0][name], drawn[1][name])
    assert not torch.equal(drawn[0][name], drawn[2][name])
    own = old.state_dict()
    assert all(torch.equal(drawn[0][name], own[name]) for name in own)


def test_layers_that_cannot_be_had_are_refused_in_a_sentence(tmp_path: Path) -> None:
    old = small_models.model(small_models.config())
    save_model(old, tmp_path / "pre", torch.float32)
    with pytest.raises(ValueError, match=f"has {old.config.layers} layers, and --layers can only add to them"):
        first_weights(tmp_path / "pre", (), old.config.layers)
    with pytest.raises(ValueError, match="layers must be"):
        first_weights(tmp_path / "pre", (), 10**6)
    save_model(small_models.model(small_models.config(**small_models.VARIANTS["authors"])), tmp_path / "post")
    with pytest.raises(ValueError, match="a new layer would change what it paints"):
        first_weights(tmp_path / "post", (), 9)
