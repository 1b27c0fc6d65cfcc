"""The first weights of a run that continues from another model's: a run may learn classes that the model does not know,
or none at all. What the network computes without a class is the same at first."""

import dataclasses
from pathlib import Path

import torch

from scanline.model.config import ModelConfig
from scanline.model.formats.checkpoint import load_model

Weights = dict[str, torch.Tensor]


def first_weights(directory: Path, classes: tuple[tuple[str, ...], ...]) -> tuple[ModelConfig, Weights]:
    """Return the configuration of the model in `directory` with these classes, and its weights.

    The vector of a class that the model knows by the same name is kept; that of any other class starts as the one of no
    class, which is zero where the model knows none. ValueError where the model cannot do without its classes.
    """
    model = load_model(directory)
    config, weights = model.config, model.state_dict()
    changed = dataclasses.replace(config, classes=classes)
    if config.classes == classes:
        return changed, weights
    table = weights.pop("classes", torch.zeros(1, config.model_width))  # [1 + number of classes, D]
    if classes:
        row_of = {name: row for row, name in enumerate(config.class_names, start=1)}
        rows = [0, *(row_of.get(name, 0) for name in changed.class_names)]
        weights["classes"] = table[rows].clone()
    else:
        _add_to_input(weights, config, table[0], directory)
    return changed, weights


def _add_to_input(weights: Weights, config: ModelConfig, vector: torch.Tensor, directory: Path) -> None:
    """Add a vector [D] to the network's input at every position, in tables that it has anyway, IN PLACE."""
    row, value = weights.get("embedding.row"), weights.get("embedding.value")
    half = config.model_width // 2
    if config.embedding_join == "sum":
        table = value if row is None else row
        assert table is not None  # a byte has a value, and a window's pixel a row
        table += vector
    elif row is not None and value is not None:
        value += vector[:half]
        row += vector[half:]
    else:
        raise ValueError(f"{directory} cannot be trained without its classes: its positions have no weights")
