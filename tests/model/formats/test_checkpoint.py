"""Model directories: what is saved is what is loaded, in one file or in shards."""

import json
from pathlib import Path

import pytest
import torch

from scanline.model.formats import checkpoint, model_dir
from scanline.model.formats.checkpoint import load_model, save_model
from scanline.model.formats.model_dir import ModelDirectoryError, load_config, weight_bytes
from tests.support import small_models
from tests.support.saved_models import assert_same_weights, files


@pytest.mark.parametrize("variant", ["authors", "waves of pixels"])
def test_a_saved_model_comes_back_for_evaluation_with_weights_of_float16(tmp_path: Path, variant: str) -> None:
    saved = small_models.model(small_models.config(**small_models.VARIANTS[variant]))
    save_model(saved, tmp_path / "first")
    model = load_model(tmp_path / "first")
    assert model.config == load_config(tmp_path / "first") == saved.config
    assert_same_weights({name: x.half().float() for name, x in saved.state_dict().items()}, model.state_dict())
    assert not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())
    save_model(model, tmp_path / "second")  # which changes no byte
    assert files(tmp_path / "first") == files(tmp_path / "second") == ["config.json", "model.safetensors"]
    for name in files(tmp_path / "first"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()


def test_a_class_conditional_model_comes_back_with_its_classes(tmp_path: Path) -> None:
    saved = small_models.model(small_models.config(**small_models.CLASSES))
    save_model(saved, tmp_path, torch.float32)
    model = load_model(tmp_path)
    assert model.config.classes == saved.config.classes
    assert_same_weights(saved.state_dict(), model.state_dict())
    assert model.state_dict()["classes"].shape == (4, saved.config.model_width)


@pytest.mark.parametrize("held", [(), (("7",), ("8",))], ids=["none", "others"])
def test_weights_without_the_classes_of_the_configuration_are_refused(
    tmp_path: Path, held: tuple[tuple[str, ...], ...]
) -> None:
    save_model(small_models.model(small_models.config(classes=held)), tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(written | small_models.CLASSES))
    sentence = r"tensor 'classes' has shape \[3, 12\], not \[4, 12\]" if held else "weights lack the tensor 'classes'"
    with pytest.raises(ModelDirectoryError, match=sentence):
        load_model(tmp_path)


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(checkpoint, "SHARD_BYTES", 5000)
    return 5000


def test_large_weights_are_sharded_and_come_back(tmp_path: Path, small_shards: int) -> None:
    model = small_models.model(small_models.config())
    save_model(model, tmp_path, torch.float32)
    assert not (tmp_path / "model.safetensors").exists()
    assert_same_weights(model.state_dict(), load_model(tmp_path).state_dict())
    places = json.loads((tmp_path / "model.safetensors.index.json").read_text())["weight_map"]
    assert list(places) == list(model.state_dict())
    for shard in set(places.values()):
        sizes = [model.state_dict()[name].nbytes for name, place in places.items() if place == shard]
        assert sum(sizes) <= small_shards or len(sizes) == 1, "a shard is too large, and not for one tensor"
    assert weight_bytes(tmp_path) == sum(path.stat().st_size for path in tmp_path.glob("*.safetensors"))


def test_tested_bits_per_dim_is_the_number_that_an_evaluation_left(tmp_path: Path) -> None:
    assert model_dir.tested_bits_per_dim(tmp_path) is None
    (tmp_path / "evaluation.json").write_text('{"bits_per_dim": 0.75}')
    assert model_dir.tested_bits_per_dim(tmp_path) == 0.75
    (tmp_path / "evaluation.json").write_text('{"bits_per_dim": "low"}')
    with pytest.raises(ModelDirectoryError, match=r"evaluation\.json: bits_per_dim must be a number, not 'low'"):
        model_dir.tested_bits_per_dim(tmp_path)


def test_an_evaluation_in_another_precision_is_saved_under_its_name(tmp_path: Path) -> None:
    exact = {"dataset": "mnist", "precision": "exact", "bits_per_dim": 1.0, "images": 9}
    model_dir.write_evaluation(tmp_path, exact | {"quality": {"samples": 60}})
    model_dir.write_evaluation(tmp_path, exact | {"precision": "int8", "bits_per_dim": 1.5, "quality": {"samples": 50}})
    model_dir.write_evaluation(tmp_path, exact | {"bits_per_dim": 1.25})
    assert model_dir.read_evaluation(tmp_path) == {
        "dataset": "mnist",
        "precision": "exact",
        "bits_per_dim": 1.25,
        "images": 9,
        "quality": {"samples": 60},
        "precisions": {"int8": {"bits_per_dim": 1.5, "images": 9, "quality": {"samples": 50}}},
    }


@pytest.mark.parametrize(
    ("directory", "name"),
    [
        ("/models/digits", "digits"),
        ("/cache/hub/models--someone--my-digits/snapshots/5f0b5d2c9a", "my-digits"),
        ("/cache/hub/models--digits/snapshots/5f0b5d2c9a", "digits"),
        ("/data/snapshots/5f0b5d2c9a", "5f0b5d2c9a"),
    ],
)
def test_a_model_is_named_after_its_directory_and_in_a_cache_after_its_repository(directory: str, name: str) -> None:
    assert model_dir.model_name(Path(directory)) == name
