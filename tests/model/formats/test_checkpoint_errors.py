"""Every way in which a model directory can be wrong is one sentence that names the culprit."""

import json
import re
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from scanline.model.config import FORMAT
from scanline.model.formats import checkpoint
from scanline.model.formats.checkpoint import load_model, save_model
from scanline.model.formats.model_dir import ModelDirectoryError
from tests.support import small_models

Weights = dict[str, torch.Tensor]


def config_file(directory: Path, **changes: object) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def text(name: str, content: str) -> Callable[[Path], object]:
    return lambda directory: (directory / name).write_text(content)


def weights(change: Callable[[Weights], object]) -> Callable[[Path], object]:
    def damage(directory: Path) -> None:
        tensors = load_file(directory / "model.safetensors")
        change(tensors)
        save_file(tensors, directory / "model.safetensors")

    return damage


def cut(name: str, size: int) -> Callable[[Path], object]:
    return lambda directory: (directory / name).write_bytes((directory / name).read_bytes()[:size])


def index(content: object) -> Callable[[Path], object]:
    return text("model.safetensors.index.json", json.dumps(content))


WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    "no directory": (shutil.rmtree, "model is not a model directory: no such directory"),
    "empty directory": (lambda d: [path.unlink() for path in d.iterdir()], "config.json is missing"),
    "no configuration": (lambda d: (d / "config.json").unlink(), "config.json is missing"),
    "no weights": (lambda d: (d / "model.safetensors").unlink(), "model.safetensors is missing"),
    "broken JSON": (text("config.json", '{"format": 1,'), "config.json is not readable JSON"),
    "empty JSON": (text("config.json", ""), "config.json is not readable JSON"),
    "another encoding": (lambda d: (d / "config.json").write_bytes(b"\xff\xfe{"), "config.json is not readable"),
    "JSON nested too deep": (text("config.json", "[" * 100_000), "config.json is not readable JSON"),
    "a number too long": (text("config.json", '{"format": ' + "1" * 5000 + "}"), "config.json is not readable JSON"),
    "a list for an object": (text("config.json", "[1]"), "config.json must hold a JSON object"),
    "a directory for a file": (
        lambda d: ((d / "config.json").unlink(), (d / "config.json").mkdir()),
        "config.json is not readable JSON",
    ),
    "newer format": (
        lambda d: config_file(d, format=FORMAT + 1),
        f"config.json: format {FORMAT + 1} is newer than this",
    ),
    "another size": (lambda d: config_file(d, feed_forward=21), "has shape [20], not [21] as config.json says"),
    "fewer layers": (lambda d: config_file(d, layers=1), "unexpected tensor 'layers.1."),
    "more layers": (lambda d: config_file(d, layers=3), "the weights lack the tensor 'layers.2."),
    "missing tensor": (weights(lambda w: w.pop("head.bias")), "the weights lack the tensor 'head.bias'"),
    "extra tensor": (weights(lambda w: w.update(spare=torch.ones(1))), "unexpected tensor 'spare'"),
    "wrong shape": (
        weights(lambda w: w.update({"head.bias": torch.ones(10)})),
        "tensor 'head.bias' has shape [10], not [9] as config.json says",
    ),
    "integers": (
        weights(lambda w: w.update({"head.bias": torch.ones(9, dtype=torch.int32)})),
        "tensor 'head.bias' is torch.int32, not a float of 16 or 32 bits",
    ),
    "NaN": (weights(lambda w: w["norm.weight"].fill_(float("nan"))), "tensor 'norm.weight' holds NaN or infinite"),
    "infinite": (weights(lambda w: w["norm.weight"][3:4].fill_(float("inf"))), "tensor 'norm.weight' holds NaN"),
    "truncated header": (cut("model.safetensors", 100), "model.safetensors is not a readable safetensors file"),
    "truncated data": (cut("model.safetensors", -1), "model.safetensors is not a readable safetensors file"),
    "no bytes": (cut("model.safetensors", 0), "model.safetensors is not a readable safetensors file"),
    "not safetensors": (text("model.safetensors", "hello " * 99), "model.safetensors is not a readable safetensors"),
    "index of another configuration": (
        index({"metadata": {"config": {"format": 2}}, "weight_map": {"head.bias": "model.safetensors"}}),
        "missing key 'height'",
    ),
    "index of nothing": (index({}), "index.json: it has no weight_map"),
    "index of a list": (index({"weight_map": ["a"]}), "index.json: it has no weight_map"),
    "broken index": (text("model.safetensors.index.json", "{"), "index.json is not readable JSON"),
    "missing shard": (index({"weight_map": {"head.bias": "model-00001.safetensors"}}), "00001.safetensors is missing"),
    "path outside": (
        index({"weight_map": {"head.bias": "../other/model.safetensors"}}),
        "'../other/model.safetensors' is not a file name in this directory",
    ),
    "absolute path": (index({"weight_map": {"head.bias": "/etc/passwd"}}), "'/etc/passwd' is not a file name"),
    "parent for a file": (index({"weight_map": {"head.bias": ".."}}), "'..' is not a file name in this directory"),
    "no name for a file": (index({"weight_map": {"head.bias": ""}}), "'' is not a file name in this directory"),
    "null in a name": (index({"weight_map": {"head.bias": "a\0b"}}), r"'a\x00b' is not a file name"),
    "number for a file": (index({"weight_map": {"head.bias": 7}}), "7 is missing"),
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("checkpoint") / "model"
    save_model(small_models.model(small_models.config()), directory)
    return directory


@pytest.mark.parametrize("case", WRONG)
def test_wrong_directory(good: Path, tmp_path: Path, case: str) -> None:
    damage, sentence = WRONG[case]
    directory = tmp_path / "model"
    shutil.copytree(good, directory)
    damage(directory)
    with pytest.raises(ModelDirectoryError, match=re.escape(sentence)) as error:
        load_model(directory)
    assert "\n" not in str(error.value)
    assert str(directory) in str(error.value)


def test_a_tensor_that_two_shards_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "SHARD_BYTES", 2000)
    save_model(small_models.model(small_models.config()), tmp_path)
    first, second = sorted(tmp_path.glob("*.safetensors"))[:2]
    shutil.copy(first, second)
    with pytest.raises(ModelDirectoryError, match="unexpected tensor"):
        load_model(tmp_path)


LARGE = {"heads": 1024, "key_width": 64, "value_width": 64, "feed_forward": 65_536, "layers": 64}


def test_what_config_json_claims_takes_no_memory_before_the_weights_are_seen(good: Path, tmp_path: Path) -> None:
    """6 TB of weights that are not there."""
    directory = tmp_path / "model"
    shutil.copytree(good, directory)
    config_file(directory, **LARGE)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # kB
    with pytest.raises(ModelDirectoryError, match=r"has shape \[5, 12\], not \[5, 65536\]"):
        load_model(directory)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000
