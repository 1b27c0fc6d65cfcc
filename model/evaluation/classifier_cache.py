"""Where trained classifiers are kept: safetensors, named after the data, its checksum and the recipe.

A file that is not what its name says is not used, and replaced.
"""

import os
from hashlib import sha256
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.torch import load, save

from scanline.model.atomic import write_atomically
from scanline.model.evaluation.classifier import Classifier
from scanline.model.evaluation.train_classifier import RECIPE


def default_directory() -> Path:
    """The user's cache, as XDG_CACHE_HOME has it."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if Path(home).is_absolute() else Path.home() / ".cache") / "scanline"


def path_of(directory: Path, dataset: str, images: np.ndarray, labels: np.ndarray, seed: int) -> Path:
    """The file of a classifier of these images and labels."""
    digest = sha256(np.ascontiguousarray(images).data)
    digest.update(np.ascontiguousarray(labels).data)
    return directory / f"classifier-{dataset}-{digest.hexdigest()[:16]}-recipe{RECIPE}-seed{seed}.safetensors"


def check_writable(path: Path) -> None:
    """OSError where no file can be written there; asked before the work, not after it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path.with_name(f"{path.name}.try"), lambda temporary: temporary.write_bytes(b""))
    path.with_name(f"{path.name}.try").unlink()


def recall(path: Path, shape: tuple[int, int, int]) -> Classifier | None:
    """The classifier of a file; None where it is missing or no such classifier."""
    classifier = Classifier(*shape)
    try:
        classifier.load_state_dict(load(path.read_bytes()))
    except (FileNotFoundError, SafetensorError, RuntimeError):
        return None
    return classifier.eval().requires_grad_(False)


def keep(classifier: Classifier, path: Path) -> None:
    """Writes it for the next time, atomically."""
    tensors = {name: tensor.cpu().contiguous() for name, tensor in classifier.state_dict().items()}
    write_atomically(path, lambda temporary: temporary.write_bytes(save(tensors)))
