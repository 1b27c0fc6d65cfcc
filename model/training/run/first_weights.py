"""The first weights of a run that continues from another model's: a run may learn classes that
the model does not know, or none at all, and add layers to it. What the network computes
without a class is the same at first."""

import dataclasses
from pathlib import Path

import torch

from scanline.model.base.config import ModelConfig
from scanline.model.formats.checkpoint import load_model
from scanline.model.network.transformer import Transformer

Weights = dict[str, torch.Tensor]


def first_weights(
    directory: Path, classes: tuple[tuple[str, ...], ...], layers: int | None = None, seed: int = 0
) -> tuple[ModelConfig, Weights]:
    """Return the configuration of the model in `directory` with these classes and so many layers,
    and its weights.

    The vector of a class that the model knows by the same name is kept; that of any other class
    starts as the one of no class, which is zero where the model knows none. Layers that the model
    does not have are drawn from the seed and stand on top of its own; they start by adding nothing.
    ValueError where the model cannot do without its classes, or cannot have so many layers.
    """
    model = load_model(directory)
    config = model.config
    weights = model.state_dict()
    if layers is not None:
        config = _grow(weights, config, layers, seed, directory)
    changed = with_classes(config, classes)
    if config.classes != classes:
        _change_classes(weights, config, changed, directory)
    for name, weight in Transformer(changed).state_dict().items():
        weights.setdefault(name, torch.zeros_like(weight))  # of classes, where the model has none
    return changed, weights


def with_classes(config: ModelConfig, classes: tuple[tuple[str, ...], ...]) -> ModelConfig:
    """Return the configuration with these classes, and with biases for them unless it is plain, as
    the paper's are."""
    biases = bool(classes) and (config.class_biases or config.step == "pixel")
    return dataclasses.replace(config, classes=classes, class_biases=biases)


def _change_classes(
    weights: Weights, config: ModelConfig, changed: ModelConfig, directory: Path
) -> None:
    """Replace the vectors of the classes of `config` by those of `changed`, IN PLACE."""
    tables: Weights = {}  # [1 + number of classes, D]
    for name in list(weights):
        if name == "classes" or name.endswith(".class_bias"):
            tables[name] = weights.pop(name)
    if changed.classes:
        row_of = {name: row for row, name in enumerate(config.class_names, start=1)}
        rows = [0, *(row_of.get(name, 0) for name in changed.class_names)]
        weights |= {name: table[rows] for name, table in tables.items()}
        return
    _add_to_input(weights, config, tables.pop("classes")[0], directory)
    for name, table in tables.items():
        weights[name.replace("class_bias", "bias")] += table[0]


def _grow(
    weights: Weights, config: ModelConfig, layers: int, seed: int, directory: Path
) -> ModelConfig:
    """Add the weights of layers on top of those of `config`, IN PLACE, and return the configuration
    with them."""
    if layers <= config.layers:
        raise ValueError(
            f"{directory} has {config.layers} layers, and --layers can only add to them"
        )
    if config.norm == "post":
        raise ValueError(
            f"{directory} has its norms after the layers, so that a new layer would change what it"
            " paints"
        )
    grown = dataclasses.replace(config, layers=layers)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        random = Transformer(grown).state_dict()
    for name in random.keys() - weights.keys():
        weights[name] = random[name]
        if name.startswith("layers") and "_out." in name:
            weights[name].zero_()  # what it adds to the layers below
    return grown


def _add_to_input(
    weights: Weights, config: ModelConfig, vector: torch.Tensor, directory: Path
) -> None:
    """Add a vector [D] to the network's input at every position, in tables that it has anyway, IN
    PLACE."""
    row = weights.get("embedding.row")
    value = weights.get("embedding.value")
    half = config.model_width // 2
    if config.embedding_join == "sum":
        table = value if row is None else row
        assert table is not None  # a byte has a value, and a window's pixel a row
        table += vector
    elif row is not None and value is not None:
        value += vector[:half]
        row += vector[half:]
    else:
        raise ValueError(
            f"{directory} cannot be trained without its classes: its positions have no weights"
        )
