"""The metadata of a model card: the YAML at the head of README.md, which the Hugging Face Hub shows
and searches by.

Written without a YAML library, since the lines are few; strings are JSON's, which YAML reads.
"""

import json
from typing import Any

CARD = "README.md"
TASK = "unconditional-image-generation"
# the Hub's ids, and names
PUBLISHED = {"mnist": ("ylecun/mnist", "MNIST"), "cifar10": ("uoft-cs/cifar10", "CIFAR-10")}
FENCE = "---\n"


def metadata(name: str, evaluation: dict[str, Any], *, published: bool = True) -> str:
    """Return the metadata of a model, between two lines of hyphens.

    evaluation: what evaluation.json holds, {} where the model has not been measured. published:
    whether a data set with the name of a published one is that.
    """
    lines = ["library_name: scanline", f"pipeline_tag: {TASK}"]
    dataset = evaluation.get("dataset")
    bits_per_dim = evaluation.get("bits_per_dim")
    if dataset and bits_per_dim is not None:
        kind = "imagefolder"
        title = str(dataset)
        if published and dataset in PUBLISHED:
            kind, title = PUBLISHED[dataset]
            lines += ["datasets:", f"- {kind}"]
        lines += [
            "model-index:",
            f"- name: {_quoted(name)}",
            "  results:",
            "  - task:",
            f"      type: {TASK}",
            "    dataset:",
            f"      type: {kind}",
            f"      name: {_quoted(title)}",
            "      split: test",
            "    metrics:",
            "    - type: bits_per_dim",
            "      name: bits/dim",
            f"      value: {bits_per_dim:.3f}",
        ]
    return FENCE + "\n".join(lines) + "\n" + FENCE


def with_metadata(card: str, name: str, evaluation: dict[str, Any]) -> str:
    """Return a card with metadata at its head; as it is where it has some."""
    return card if card.startswith(FENCE) else f"{metadata(name, evaluation)}\n{card}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
