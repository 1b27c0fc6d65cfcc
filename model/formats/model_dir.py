"""What a model directory says without its weights: config.json, what the index knows, how it was evaluated.

Whoever only tells of models reads it without torch, which would be most of a small process's memory.
"""

import json
from math import isfinite
from pathlib import Path
from typing import Any

from scanline.model.config import ModelConfig

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
EVALUATION = "evaluation.json"


class ModelDirectoryError(ValueError):
    """A model directory that is wrong; the message is one sentence for the user."""


def load_config(directory: Path) -> ModelConfig:
    """The configuration of a model directory; ModelDirectoryError where it is wrong."""
    try:
        return ModelConfig.from_dict(_unfinished(directory) or _read_object(directory, CONFIG))
    except ValueError as error:
        if isinstance(error, ModelDirectoryError):
            raise
        raise ModelDirectoryError(f"{directory / CONFIG}: {error}") from None


def tested_bits_per_dim(directory: Path) -> float | None:
    """What `scanline evaluate --save` found for a model; None where it has not been run."""
    found = read_evaluation(directory)
    if not found:
        return None
    value = found.get("bits_per_dim")
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise ModelDirectoryError(f"{directory / EVALUATION}: bits_per_dim must be a number, not {value!r}")
    return float(value)


def read_evaluation(directory: Path) -> dict[str, Any]:
    """What `scanline evaluate --save` wrote; nothing where it has not been run."""
    return _read_object(directory, EVALUATION) if (directory / EVALUATION).exists() else {}


def weight_bytes(directory: Path) -> int:
    """Size of the weights on disk."""
    return sum((directory / file).stat().st_size for file in weight_files(directory))


def weight_files(directory: Path) -> list[str]:
    if not (directory / INDEX).exists():
        return [WEIGHTS]
    places = _read_object(directory, INDEX).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise ModelDirectoryError(f"{directory / INDEX}: it has no weight_map")
    files = sorted({str(file) for file in places.values()})
    if outside := [file for file in files if Path(file).name != file]:
        raise ModelDirectoryError(f"{directory / INDEX}: {outside[0]!r} is not a file name in this directory")
    return files


def _unfinished(directory: Path) -> Any:
    """The configuration that an index carries, of a save that was cut short; None where there is none."""
    if not (directory / INDEX).exists():
        return None
    metadata = _read_object(directory, INDEX).get("metadata")
    return metadata.get("config") if isinstance(metadata, dict) else None


def _read_object(directory: Path, name: str) -> dict[str, Any]:
    if not directory.is_dir():
        raise ModelDirectoryError(f"{directory} is not a model directory: no such directory")
    try:
        data = json.loads((directory / name).read_text())
    except FileNotFoundError:
        raise ModelDirectoryError(f"{directory} is not a model directory: {name} is missing") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ModelDirectoryError(f"{directory / name} is not readable JSON: {error}") from None
    if not isinstance(data, dict):
        raise ModelDirectoryError(f"{directory / name} must hold a JSON object")
    return data
