"""Model directories without their weights: config.json, the index of shards, evaluation.json.

This module imports no torch, which would be most of the memory of a process that only lists models.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

from scanline.model.base.atomic import write_file
from scanline.model.base.config import ModelConfig
from scanline.model.base.named_files import FileError, read_file
from scanline.model.base.precision import DEFAULT
from scanline.model.base.sampling_options import Defaults
from scanline.model.images.cleaning import Clean, Cleaning
from scanline.model.likelihood.classification import read_temperature
from scanline.model.likelihood.typicality import Typicality

Part = TypeVar("Part")

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
EVALUATION = "evaluation.json"
GENERATION = "generation_config.json"
CLASS_HEAD = "classes.safetensors"
MAX_SMALL_BYTES = 10_000_000  # of each of these but the weights
FILE_NAME = re.compile(r"\w[\w.-]{0,254}", re.ASCII)
RUN = "run.json"  # of training
WRITTEN = ("README.md", "samples.png", "classes.png", "loss.csv", "loss.png", EVALUATION, WEIGHTS)
# how their names end
FILES = {".safetensors", ".pth", ".pt", ".ckpt", ".npy", ".png", ".json", ".zip"}
MEASURED = ("bits_per_dim", "standard_error", "images", "quality", "classes")  # with a precision


class ModelDirectoryError(FileError):
    """A model directory that is wrong."""


def check_out(directory: Path) -> None:
    """Raise ValueError, before the work, where a model would be written to a path that is a file's,
    or would replace files of a directory that is no model's."""
    if directory.suffix.lower() in FILES and not directory.is_dir():
        raise ValueError(f"{directory} is the name of a file; a model is a directory of several")
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"{directory} is a file; name a directory")
    if any((directory / name).exists() for name in (RUN, CONFIG)):
        return
    for name in WRITTEN:
        if (directory / name).exists():
            raise ValueError(
                f"{directory} has a {name} and is no model's directory; give another --out"
            )


@dataclass(frozen=True)
class ModelInfo:
    """What a model directory says besides the weights; what tasks are planned by."""

    config: ModelConfig
    defaults: Defaults = field(default_factory=Defaults)  # of requests
    cleaning: Cleaning | None = None  # this and the next two: where it has been evaluated
    typicality: Typicality | None = None
    bits_per_dim: float | None = None  # of the test images
    has_class_head: bool = False
    temperature_by_bits: float | None = None  # of the posterior of classes by bits

    def photos(self, clean: Clean) -> Cleaning | None:
        """Return what reads the drawings on pictures of any size, for a request with this `clean`;
        None where they must have the model's."""
        is_grey = self.config.channels == 1
        return self.cleaning if clean == "auto" and is_grey else None


def read_info(directory: Path) -> ModelInfo:
    """Return what a model directory says; ModelDirectoryError where it is wrong."""
    config = load_config(directory)
    return ModelInfo(
        config,
        read_defaults(directory, config),
        _evaluated(directory, "clean", Cleaning.from_dict),
        _evaluated(directory, "typical", Typicality.from_dict),
        tested_bits_per_dim(directory),
        (directory / CLASS_HEAD).exists(),
        _evaluated(directory, "classes", read_temperature),
    )


def load_config(directory: Path) -> ModelConfig:
    """Return the configuration of a model directory; ModelDirectoryError where it is wrong."""
    with reading(directory / CONFIG):
        return ModelConfig.from_dict(_unfinished(directory) or _read_object(directory, CONFIG))


def model_name(directory: Path) -> str:
    """Return the name of the model in a directory, given as an absolute path: the directory's, or,
    for a revision in a Hugging Face cache (models--OWNER--NAME/snapshots/HASH), the repository's.
    """
    repository = cached_repository(directory)
    return directory.name if repository is None else repository.name.split("--")[-1]


def cached_repository(directory: Path) -> Path | None:
    """Return the folder of the repository whose snapshot in a Hugging Face cache this directory is;
    None of others."""
    snapshots = directory.parent
    repository = snapshots.parent
    if snapshots.name == "snapshots" and repository.name.startswith("models--"):
        return repository
    return None


def tested_bits_per_dim(directory: Path) -> float | None:
    """Return the test bits/dim that `scanline evaluate --save` measured; None where it has not been
    run."""
    value = read_evaluation(directory).get("bits_per_dim")
    return None if value is None else float(value)


def read_defaults(directory: Path, config: ModelConfig) -> Defaults:
    """Return what images are painted with where a request does not say; ModelDirectoryError where a
    field is wrong."""
    if not (directory / GENERATION).exists():
        return Defaults()
    with reading(directory / GENERATION):
        defaults = Defaults.from_dict(_read_object(directory, GENERATION), config)
        if defaults.best_of > 1 and not (directory / CLASS_HEAD).exists():
            raise ValueError("best_of needs a class head, which the model does not have")
        return defaults


def _evaluated(directory: Path, key: str, read: Callable[[Any], Part]) -> Part | None:
    """Return a part of evaluation.json; ModelDirectoryError where it is wrong."""
    value = read_evaluation(directory).get(key)
    with reading(directory / EVALUATION):
        return None if value is None else read(value)


def read_evaluation(directory: Path) -> dict[str, Any]:
    """Return evaluation.json; {} where `scanline evaluate --save` has not been run,
    ModelDirectoryError where it is wrong."""
    if not (directory / EVALUATION).exists():
        return {}
    with reading(directory / EVALUATION):
        evaluation = _read_object(directory, EVALUATION)
        bits = evaluation.get("bits_per_dim", 0.0)
        if isinstance(bits, bool) or not isinstance(bits, int | float) or not isfinite(bits):
            raise ValueError(f"bits_per_dim must be a number, not {bits!r}")
        if not isinstance(evaluation.get("precisions", {}), dict):
            raise ValueError("precisions must be an object")
    return evaluation


def write_evaluation(directory: Path, evaluation: dict[str, Any]) -> None:
    """Add an evaluation to evaluation.json: at its top for the default precision, else under the
    precision's name."""
    written = read_evaluation(directory)
    if evaluation["precision"] == DEFAULT:
        classes = written.get("classes", {})
        written |= evaluation
        if "classes" in evaluation:  # parts of it that were not measured this time stay
            written["classes"] = classes | evaluation["classes"]
    else:
        measured = {key: evaluation[key] for key in MEASURED if key in evaluation}
        written.setdefault("precisions", {})[evaluation["precision"]] = measured
    write_file(directory / EVALUATION, json.dumps(written, indent=1) + "\n")


def weight_bytes(directory: Path) -> int:
    """Return the size of the weights on disk."""
    return sum((directory / file).stat().st_size for file in weight_files(directory))


def weight_files(directory: Path) -> list[str]:
    """Return the names of the files of weights; ModelDirectoryError where the index is wrong."""
    if not (directory / INDEX).exists():
        return [WEIGHTS]
    with reading(directory / INDEX):
        places = _read_object(directory, INDEX).get("weight_map")
        if not isinstance(places, dict) or not places:
            raise ValueError("it has no weight_map")
        files = sorted({str(file) for file in places.values()})
        for file in files:
            if not FILE_NAME.fullmatch(file):
                raise ValueError(f"{file!r} is not a file name in this directory")
    return files


def _unfinished(directory: Path) -> Any:
    """Return the configuration that the index of an interrupted save carries; None where there is
    none."""
    if not (directory / INDEX).exists():
        return None
    metadata = _read_object(directory, INDEX).get("metadata")
    return metadata.get("config") if isinstance(metadata, dict) else None


def _read_object(directory: Path, name: str) -> dict[str, Any]:
    if not directory.is_dir():
        raise ModelDirectoryError(f"{directory} is not a model directory: no such directory")
    try:
        data = json.loads(read_file(directory / name, MAX_SMALL_BYTES))
    except FileNotFoundError:
        raise ModelDirectoryError(
            f"{directory} is not a model directory: {name} is missing"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise ModelDirectoryError(f"{directory / name} is not readable JSON: {error}") from None
    if not isinstance(data, dict):
        raise ModelDirectoryError(f"{directory / name} must hold a JSON object")
    return data


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise ModelDirectoryError in place of any exception: strangers write these files, and a
    number may be too large for a float, a value of any type, a list nested too deep."""
    try:
        yield
    except ModelDirectoryError:
        raise
    except Exception as error:
        raise ModelDirectoryError(f"{path}: {error or type(error).__name__}") from None
