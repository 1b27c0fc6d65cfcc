"""Weights of model directories: model.safetensors, in shards with an index above 16 MB, and of
class heads.

Loading is strict: every tensor must be present, of the right shape and finite, or
ModelDirectoryError says in one sentence what is wrong. Weights are stored in float16 (widening is
exact) and computed in float32. A save is atomic, however many files it has.
"""

import json
import re
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from scanline.model.base.atomic import write_file
from scanline.model.base.config import ModelConfig
from scanline.model.base.named_files import check_file, read_file
from scanline.model.base.resources import one_torch_thread
from scanline.model.formats import model_dir
from scanline.model.formats.model_dir import CLASS_HEAD, CONFIG, INDEX, WEIGHTS, ModelDirectoryError
from scanline.model.network.class_head import ClassHead, FeatureShape
from scanline.model.network.transformer import Transformer

SHARD = re.compile(r"model-([0-9a-f]{8}-)?\d{5}-of-\d{5}\.safetensors")
SHARD_BYTES = 16_000_000
METADATA = {"format": "pt"}  # as Hugging Face's libraries ask for
LFS_POINTER = b"version https://git-lfs"
MAX_CELLS = 64  # of a class head, in a row
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def save_model(model: Transformer, directory: Path, dtype: torch.dtype = torch.float16) -> None:
    """Write config.json and the weights. A full disk or a kill at any point leaves the old model or
    the new one.

    A reader follows the index where there is one, else model.safetensors; so one atomic move
    changes what is loaded.
    """
    directory.mkdir(parents=True, exist_ok=True)
    # first: a class head is for the weights that it was fitted to
    (directory / CLASS_HEAD).unlink(missing_ok=True)
    tensors = {
        name: tensor.detach().cpu().to(dtype).contiguous()
        for name, tensor in model.state_dict().items()
    }
    shards = _shards(tensors)
    config = model.config.to_dict()
    text = json.dumps(config, indent=1) + "\n"
    path = directory / CONFIG
    replaces_another = path.exists() and read_file(path) != text.encode()

    # Shards first: their names carry a checksum, so no shard that the old index names is
    # overwritten.
    places = _write_shards(shards, directory) if replaces_another or len(shards) > 1 else {}
    if replaces_another:
        # config.json and the weights cannot change in one move. An index that carries the
        # configuration can: from here on the new model is loaded, whatever config.json says.
        index = {"metadata": {"config": config}, "weight_map": places}
        write_file(directory / INDEX, json.dumps(index, indent=1))
        # Now config.json may follow, before the index below stops carrying the configuration.
        write_file(path, text)
    if len(shards) > 1:
        # Same configuration: this move alone turns the old weights into the new ones.
        write_file(directory / INDEX, json.dumps({"weight_map": places}, indent=1))
        # The index takes precedence, so the old single file is only a waste of space.
        (directory / WEIGHTS).unlink(missing_ok=True)
    else:
        # The single file has to be there before the index that takes precedence over it goes.
        write_file(directory / WEIGHTS, save(tensors, METADATA))
        (directory / INDEX).unlink(missing_ok=True)
    # In a new directory config.json comes last: a kill before it leaves no directory that looks like
    # a model.
    write_file(path, text)
    # Old shards go when nothing names them any more.
    named = places.values() if len(shards) > 1 else ()
    for file in directory.iterdir():
        if SHARD.fullmatch(file.name) and file.name not in named:
            file.unlink()


@one_torch_thread()
def load_model(directory: Path, device: torch.device | str = "cpu") -> Transformer:
    """Return the model of a directory, float32, in evaluation mode; ModelDirectoryError where
    anything is wrong."""
    config = model_dir.load_config(directory)
    # shapes only: sizes in config.json take no memory before the weights confirm them
    with torch.device("meta"):
        expected = Transformer(config).state_dict()
    tensors: dict[str, torch.Tensor] = {}
    for file in model_dir.weight_files(directory):
        with model_dir.reading(directory / file):
            _read_tensors(directory / file, expected, tensors)
    missing = sorted(set(expected) - set(tensors))
    if missing:
        raise ModelDirectoryError(f"{directory}: the weights lack the tensor {missing[0]!r}")
    model = Transformer(config)
    head = _load_class_head(directory, config)
    if head is not None:
        model.class_head = head.to(torch.device(device))
    model.load_state_dict(tensors)
    return model.to(device).eval().requires_grad_(False)


def save_class_head(head: ClassHead, directory: Path) -> None:
    """Write the class head of the model in `directory`."""
    shape = {"layers": " ".join(map(str, head.shape.layers)), "cells": str(head.shape.cells)}
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in head.tensors.items()}
    write_file(directory / CLASS_HEAD, save(tensors, METADATA | shape))


def _load_class_head(directory: Path, config: ModelConfig) -> ClassHead | None:
    """Return the class head of a model directory, None where it has none;
    ModelDirectoryError where it is wrong."""
    path = directory / CLASS_HEAD
    if not path.exists():
        return None
    with model_dir.reading(path):
        check_file(path)
        with safe_open(path, framework="pt") as file:
            said = file.metadata() or {}
            names = set(file.keys())
        layers = tuple(map(int, said.get("layers", "").split()))
        shape = FeatureShape(layers, int(said.get("cells", "0")))
        if not layers or min(layers) < 0 or max(layers) > config.layers:
            raise ValueError(
                f"a class head reads the outputs of layers 0 to {config.layers}, not {layers}"
            )
        if not 1 <= shape.cells <= MAX_CELLS:
            raise ValueError(f"a class head has 1 to {MAX_CELLS} cells, not {shape.cells}")
        with torch.device("meta"):
            expected = ClassHead.empty(shape, config, "strange" in names).tensors
        tensors: dict[str, torch.Tensor] = {}
        _read_tensors(path, expected, tensors)
        missing = sorted(set(expected) - set(tensors))
        if missing:
            raise ValueError(f"the class head lacks the tensor {missing[0]!r}")
        if not (tensors["scale"] > 0).all() or not tensors["temperature"] > 0:
            raise ValueError("scale and temperature of a class head must be above 0")
    return ClassHead(shape, **tensors)


def _write_shards(shards: list[dict[str, torch.Tensor]], directory: Path) -> dict[str, str]:
    """Write each shard to a file of its own and return the file of each tensor."""
    places = {}
    for i, shard in enumerate(shards, 1):
        data = save(shard, METADATA)
        file = f"model-{sha256(data).hexdigest()[:8]}-{i:05}-of-{len(shards):05}.safetensors"
        write_file(directory / file, data)
        places.update(dict.fromkeys(shard, file))
    return places


def _read_tensors(
    path: Path, expected: dict[str, torch.Tensor], tensors: dict[str, torch.Tensor]
) -> None:
    """Add the tensors of one file to `tensors`, each checked against `expected`."""
    check_file(path)
    try:
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 (a safe_open handle is not a mapping)
                if name not in expected or name in tensors:
                    raise ModelDirectoryError(f"{path}: unexpected tensor {name!r}")
                tensor = file.get_tensor(name)
                _check_tensor(f"{path}: tensor {name!r}", tensor, expected[name])
                tensors[name] = tensor.float()
    except FileNotFoundError:
        raise ModelDirectoryError(f"{path} is missing") from None
    except (SafetensorError, OSError) as error:
        with suppress(OSError), path.open("rb") as file:
            if file.read(len(LFS_POINTER)) == LFS_POINTER:
                raise ModelDirectoryError(
                    f"{path} is a pointer of Git LFS; fetch the file by git lfs pull"
                ) from None
        raise ModelDirectoryError(f"{path} is not a readable safetensors file: {error}") from None


def _check_tensor(what: str, tensor: torch.Tensor, expected: torch.Tensor) -> None:
    if tensor.shape != expected.shape:
        shapes = f"{list(tensor.shape)}, not {list(expected.shape)}"
        raise ModelDirectoryError(f"{what} has shape {shapes} as config.json says")
    if tensor.dtype not in DTYPES:
        raise ModelDirectoryError(f"{what} is {tensor.dtype}, no float of 16 or 32 bits")
    if not torch.isfinite(tensor).all():
        raise ModelDirectoryError(f"{what} holds NaN or infinite values")


def _shards(tensors: dict[str, torch.Tensor]) -> list[dict[str, torch.Tensor]]:
    """Return the tensors in order, split into files of at most SHARD_BYTES (a larger tensor has its
    own)."""
    shards: list[dict[str, torch.Tensor]] = [{}]
    room = SHARD_BYTES
    for name, tensor in tensors.items():
        if tensor.nbytes > room and shards[-1]:
            shards.append({})
            room = SHARD_BYTES
        shards[-1][name] = tensor
        room -= tensor.nbytes
    return shards
