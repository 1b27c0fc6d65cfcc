"""Model directories: saved and loaded, or refused in one sentence."""

import json
import re
import resource
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from scanline.model.base.config import FORMAT
from scanline.model.formats import checkpoint, model_dir
from scanline.model.formats.checkpoint import load_model, save_model
from scanline.model.formats.model_dir import ModelDirectoryError, load_config, weight_bytes
from tests.support import small_models
from tests.support.saved_models import assert_same_weights, files

CLASSES = small_models.CLASSES


@pytest.mark.parametrize(
    "changes", [*map(small_models.VARIANTS.get, ("authors", "waves of pixels")), CLASSES]
)
def test_a_saved_model_comes_back_to_evaluate_with_weights_of_float16(tmp_path, changes):
    saved = small_models.model(small_models.config(**changes))
    save_model(saved, tmp_path / "first")
    model = load_model(tmp_path / "first")
    assert model.config == load_config(tmp_path / "first") == saved.config
    assert_same_weights(
        {name: x.half().float() for name, x in saved.state_dict().items()}, model.state_dict()
    )
    assert not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())
    save_model(model, tmp_path / "second")  # which changes no byte
    assert (
        files(tmp_path / "first")
        == files(tmp_path / "second")
        == ["config.json", "model.safetensors"]
    )
    for name in files(tmp_path / "first"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()


@pytest.mark.parametrize("held", [(), (("7",), ("8",))], ids=["none", "others"])
def test_weights_without_the_classes_of_config_are_refused(tmp_path, held):
    save_model(small_models.model(small_models.config(classes=held)), tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(written | CLASSES))
    sentence = (
        r"tensor 'classes' has shape \[3, 12\], not \[4, 12\]"
        if held
        else "weights lack the tensor 'classes'"
    )
    with pytest.raises(ModelDirectoryError, match=sentence):
        load_model(tmp_path)


def test_large_weights_are_sharded_and_come_back(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SHARD_BYTES", 5000)
    model = small_models.model(small_models.config())
    save_model(model, tmp_path, torch.float32)
    assert not (tmp_path / "model.safetensors").exists()
    assert_same_weights(model.state_dict(), load_model(tmp_path).state_dict())
    places = json.loads((tmp_path / "model.safetensors.index.json").read_text())["weight_map"]
    assert list(places) == list(model.state_dict())
    for shard in set(places.values()):
        sizes = [
            model.state_dict()[name].nbytes for name, place in places.items() if place == shard
        ]
        assert sum(sizes) <= 5000 or len(sizes) == 1, "a shard is too large, and not for one tensor"
    assert weight_bytes(tmp_path) == sum(
        path.stat().st_size for path in tmp_path.glob("*.safetensors")
    )
    first, second = sorted(tmp_path.glob("*.safetensors"))[:2]
    shutil.copy(first, second)  # now two shards hold a tensor
    with pytest.raises(ModelDirectoryError, match="unexpected tensor"):
        load_model(tmp_path)


def test_tested_bits_per_dim_is_the_number_that_an_evaluation_left(tmp_path):
    assert model_dir.tested_bits_per_dim(tmp_path) is None
    (tmp_path / "evaluation.json").write_text('{"bits_per_dim": 0.75}')
    assert model_dir.tested_bits_per_dim(tmp_path) == 0.75
    (tmp_path / "evaluation.json").write_text('{"bits_per_dim": "low"}')
    with pytest.raises(
        ModelDirectoryError, match=r"evaluation\.json: bits_per_dim must be a number, not 'low'"
    ):
        model_dir.tested_bits_per_dim(tmp_path)


def save_temperature(directory, value):
    classes = {"classification": {"temperature": value}}
    (directory / "evaluation.json").write_text(json.dumps({"classes": classes}))


def test_the_temperature_of_bits_is_the_one_that_an_evaluation_left(tmp_path):
    save_model(small_models.model(small_models.config()), tmp_path)
    assert model_dir.read_info(tmp_path).temperature_by_bits is None
    save_temperature(tmp_path, 0.25)
    assert model_dir.read_info(tmp_path).temperature_by_bits == 0.25
    save_temperature(tmp_path, 0)
    with pytest.raises(
        ModelDirectoryError, match=r"temperature must be a number from 0\.0001 to 1"
    ):
        model_dir.read_info(tmp_path)


def test_an_evaluation_in_another_precision_is_saved_under_its_name(tmp_path):
    exact = {"dataset": "mnist", "precision": "exact", "bits_per_dim": 1.0, "images": 9}
    model_dir.write_evaluation(tmp_path, exact | {"quality": {"samples": 60}})
    model_dir.write_evaluation(
        tmp_path, exact | {"precision": "int8", "bits_per_dim": 1.5, "quality": {"samples": 50}}
    )
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
def test_a_model_is_named_after_its_directory_and_in_a_cache_after_its_repository(directory, name):
    assert model_dir.model_name(Path(directory)) == name


def config_file(directory, **changes):
    path = directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def text(name, content):
    return lambda directory: (directory / name).write_text(content)


def weights(change):
    def damage(directory):
        tensors = load_file(directory / "model.safetensors")
        change(tensors)
        save_file(tensors, directory / "model.safetensors")

    return damage


def cut(name, size):
    return lambda directory: (directory / name).write_bytes((directory / name).read_bytes()[:size])


def as_directory(path):
    path.unlink()
    path.mkdir()


def index(content):
    return text("model.safetensors.index.json", json.dumps(content))


WRONG = {
    "no directory": (shutil.rmtree, "model is not a model directory: no such directory"),
    "no configuration": (lambda d: (d / "config.json").unlink(), "config.json is missing"),
    "no weights": (lambda d: (d / "model.safetensors").unlink(), "model.safetensors is missing"),
    "broken JSON": (text("config.json", '{"format": 1,'), "config.json is not readable JSON"),
    "another encoding": (
        lambda d: (d / "config.json").write_bytes(b"\xff\xfe{"),
        "config.json is not readable",
    ),
    "JSON nested too deep": (
        text("config.json", "[" * 100_000),
        "config.json is not readable JSON",
    ),
    "a number too long": (
        text("config.json", '{"format": ' + "1" * 5000 + "}"),
        "config.json is not readable JSON",
    ),
    "a list for an object": (text("config.json", "[1]"), "config.json must hold a JSON object"),
    "a directory for a file": (
        lambda d: as_directory(d / "config.json"),
        "config.json is not readable JSON",
    ),
    "newer format": (
        lambda d: config_file(d, format=FORMAT + 1),
        f"config.json: format {FORMAT + 1} is newer than",
    ),
    "another size": (
        lambda d: config_file(d, feed_forward=21),
        "has shape [20], not [21] as config.json says",
    ),
    "fewer layers": (lambda d: config_file(d, layers=1), "unexpected tensor 'layers.1."),
    "more layers": (lambda d: config_file(d, layers=3), "the weights lack the tensor 'layers.2."),
    "missing tensor": (
        weights(lambda w: w.pop("head.bias")),
        "the weights lack the tensor 'head.bias'",
    ),
    "extra tensor": (weights(lambda w: w.update(spare=torch.ones(1))), "unexpected tensor 'spare'"),
    "wrong shape": (
        weights(lambda w: w.update({"head.bias": torch.ones(10)})),
        "tensor 'head.bias' has shape [10], not [9] as config.json says",
    ),
    "integers": (
        weights(lambda w: w.update({"head.bias": torch.ones(9, dtype=torch.int32)})),
        "tensor 'head.bias' is torch.int32, no float of 16 or 32 bits",
    ),
    "NaN": (
        weights(lambda w: w["norm.weight"].fill_(float("nan"))),
        "tensor 'norm.weight' holds NaN or infinite",
    ),
    "infinite": (
        weights(lambda w: w["norm.weight"][3:4].fill_(float("inf"))),
        "tensor 'norm.weight' holds NaN",
    ),
    "truncated header": (
        cut("model.safetensors", 100),
        "model.safetensors is not a readable safetensors file",
    ),
    "truncated data": (
        cut("model.safetensors", -1),
        "model.safetensors is not a readable safetensors file",
    ),
    "index of another configuration": (
        index(
            {
                "metadata": {"config": {"format": 2}},
                "weight_map": {"head.bias": "model.safetensors"},
            }
        ),
        "missing key 'height'",
    ),
    "index of a list": (index({"weight_map": ["a"]}), "index.json: it has no weight_map"),
    "missing shard": (
        index({"weight_map": {"head.bias": "model-00001.safetensors"}}),
        "00001.safetensors is missing",
    ),
    "path outside": (
        index({"weight_map": {"head.bias": "../other/model.safetensors"}}),
        "'../other/model.safetensors' is not a file name in this directory",
    ),
    "absolute path": (
        index({"weight_map": {"head.bias": "/etc/passwd"}}),
        "'/etc/passwd' is not a file name",
    ),
    "parent for a file": (
        index({"weight_map": {"head.bias": ".."}}),
        "'..' is not a file name in this directory",
    ),
    "null in a name": (
        index({"weight_map": {"head.bias": "a\0b"}}),
        r"'a\x00b' is not a file name",
    ),
}


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    directory = tmp_path_factory.mktemp("checkpoint") / "model"
    save_model(small_models.model(small_models.config()), directory)
    return directory


@pytest.mark.parametrize("case", WRONG)
def test_wrong_directory(good, tmp_path, case):
    damage, sentence = WRONG[case]
    directory = tmp_path / "model"
    shutil.copytree(good, directory)
    damage(directory)
    with pytest.raises(ModelDirectoryError, match=re.escape(sentence)) as error:
        load_model(directory)
    assert "\n" not in str(error.value)
    assert str(directory) in str(error.value)


def test_what_config_json_claims_takes_no_memory_before_the_weights_are_seen(good, tmp_path):
    """6 TB of weights that are not there."""
    directory = tmp_path / "model"
    shutil.copytree(good, directory)
    config_file(directory, heads=1024, key_width=64, value_width=64, feed_forward=65_536, layers=64)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # kB
    with pytest.raises(ModelDirectoryError, match=r"has shape \[5, 12\], not \[5, 65536\]"):
        load_model(directory)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000
