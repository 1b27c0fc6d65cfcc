"""Model directories: what is saved is what is loaded, in one file or in shards."""

import json
from pathlib import Path

import pytest
import torch

from scanline.model.formats import checkpoint, model_dir
from scanline.model.formats.checkpoint import load_model, save_model
from scanline.model.formats.model_dir import ModelDirectoryError, load_config, weight_bytes
from tests.support import small_models


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def assert_same_weights(expected: dict[str, torch.Tensor], found: dict[str, torch.Tensor]) -> None:
    assert list(expected) == list(found)
    assert all(torch.equal(expected[name], found[name]) for name in expected)


@pytest.mark.parametrize("variant", small_models.VARIANTS)
def test_configuration_comes_back(tmp_path: Path, variant: str) -> None:
    config = small_models.config(**small_models.VARIANTS[variant])
    save_model(small_models.model(config), tmp_path)
    assert load_config(tmp_path) == config


def test_weights_come_back_as_float16_widened(tmp_path: Path) -> None:
    model = small_models.model(small_models.config())
    save_model(model, tmp_path)
    rounded = {name: tensor.half().float() for name, tensor in model.state_dict().items()}
    assert_same_weights(rounded, load_model(tmp_path).state_dict())


def test_float32_comes_back_exactly(tmp_path: Path) -> None:
    model = small_models.model(small_models.config())
    save_model(model, tmp_path, torch.float32)
    assert_same_weights(model.state_dict(), load_model(tmp_path).state_dict())


def test_saving_what_was_loaded_changes_no_byte(tmp_path: Path) -> None:
    save_model(small_models.model(small_models.config()), tmp_path / "first")
    save_model(load_model(tmp_path / "first"), tmp_path / "second")
    assert files(tmp_path / "first") == files(tmp_path / "second") == ["config.json", "model.safetensors"]
    for name in files(tmp_path / "first"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()


def test_a_loaded_model_is_for_evaluation(tmp_path: Path) -> None:
    save_model(small_models.model(small_models.config()), tmp_path)
    model = load_model(tmp_path)
    assert not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(checkpoint, "SHARD_BYTES", 5000)
    return 5000


def test_large_weights_are_sharded_and_come_back(tmp_path: Path, small_shards: int) -> None:
    model = small_models.model(small_models.config())
    save_model(model, tmp_path, torch.float32)
    assert not (tmp_path / "model.safetensors").exists()
    assert_same_weights(model.state_dict(), load_model(tmp_path).state_dict())


def test_shards_hold_no_more_than_their_size_unless_one_tensor_does(tmp_path: Path, small_shards: int) -> None:
    model = small_models.model(small_models.config())
    save_model(model, tmp_path, torch.float32)
    places = json.loads((tmp_path / "model.safetensors.index.json").read_text())["weight_map"]
    assert list(places) == list(model.state_dict())
    for shard in set(places.values()):
        sizes = [model.state_dict()[name].nbytes for name, place in places.items() if place == shard]
        assert sum(sizes) <= small_shards or len(sizes) == 1


def test_a_smaller_model_saved_over_a_sharded_one_is_what_is_loaded(tmp_path: Path, small_shards: int) -> None:
    save_model(small_models.model(small_models.config()), tmp_path)
    tiny = small_models.model(small_models.config(heads=1, key_width=2, value_width=2, feed_forward=4), seed=1)
    save_model(tiny, tmp_path, torch.float32)
    assert_same_weights(tiny.state_dict(), load_model(tmp_path).state_dict())


def test_a_sharded_model_saved_over_a_smaller_one_is_what_is_loaded(tmp_path: Path, small_shards: int) -> None:
    save_model(small_models.model(small_models.config(heads=1, key_width=2, value_width=2, feed_forward=4)), tmp_path)
    model = small_models.model(small_models.config(), seed=1)
    save_model(model, tmp_path, torch.float32)
    assert_same_weights(model.state_dict(), load_model(tmp_path).state_dict())


def test_weight_bytes_are_those_on_disk(tmp_path: Path, small_shards: int) -> None:
    save_model(small_models.model(small_models.config()), tmp_path)
    assert weight_bytes(tmp_path) == sum(path.stat().st_size for path in tmp_path.glob("*.safetensors"))


def test_tested_bits_per_dim_is_what_an_evaluation_left(tmp_path: Path) -> None:
    (tmp_path / "evaluation.json").write_text('{"bits_per_dim": 0.75}')
    assert model_dir.tested_bits_per_dim(tmp_path) == 0.75


def test_without_an_evaluation_there_is_no_tested_bits_per_dim(tmp_path: Path) -> None:
    assert model_dir.tested_bits_per_dim(tmp_path) is None


def test_an_evaluation_of_no_number_is_refused(tmp_path: Path) -> None:
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
