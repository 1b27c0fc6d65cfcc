"""Renders the overlays under deploy/kubernetes as `kubectl kustomize` does, for what they use of kustomize and no more.

That is: resources (files and folders), labels with selectors, and strategic merge patches, in which lists of named
items merge by name. An unknown field is an error. Where kubectl is installed, a test compares the two.
"""

from pathlib import Path
from typing import Any

import yaml

FIELDS = {"apiVersion", "kind", "resources", "labels", "patches"}
Document = dict[str, Any]


def render(folder: Path) -> dict[str, Document]:
    """The documents of an overlay, by kind."""
    overlay = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert overlay.keys() <= FIELDS, overlay.keys() - FIELDS
    documents: dict[str, Document] = {}
    for name in overlay["resources"]:
        path = folder / name
        added = render(path) if path.is_dir() else _by_kind(path)
        assert not documents.keys() & added.keys()
        documents |= added
    for patch in overlay.get("patches", []):
        assert patch.keys() == {"path"}
        for kind, document in _by_kind(folder / patch["path"]).items():
            documents[kind] = _merged(documents[kind], document)
    for labels in overlay.get("labels", []):
        assert labels["includeSelectors"] is True
        for document in documents.values():
            _label(document, labels["pairs"])
    return documents


def _by_kind(path: Path) -> dict[str, Document]:
    return {document["kind"]: document for document in yaml.safe_load_all(path.read_text())}


def _merged(base: Any, patch: Any) -> Any:
    if isinstance(base, dict) and isinstance(patch, dict):
        return {key: _merged(base.get(key), patch[key]) if key in patch else base[key] for key in {**base, **patch}}
    if isinstance(base, list) and all(isinstance(item, dict) and "name" in item for item in [*base, *patch]):
        old, new = ({item["name"]: item for item in items} for items in (base, patch))
        # new items come first, as kustomize puts them
        return [*(new[name] for name in new.keys() - old.keys()), *(_merged(old[n], new.get(n, {})) for n in old)]
    return patch


def _label(document: Document, pairs: dict[str, str]) -> None:
    document["metadata"].setdefault("labels", {}).update(pairs)
    spec = document["spec"]
    if document["kind"] == "Deployment":
        spec.setdefault("selector", {}).setdefault("matchLabels", {}).update(pairs)
        spec["template"].setdefault("metadata", {}).setdefault("labels", {}).update(pairs)
    elif document["kind"] == "Service":
        spec.setdefault("selector", {}).update(pairs)
    else:  # kustomize adds labels to a PodDisruptionBudget's selector only where it has one
        assert document["kind"] == "PodDisruptionBudget"
        assert spec["selector"]["matchLabels"].items() >= pairs.items()
