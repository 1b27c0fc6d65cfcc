"""The models that ship with the repository, one model directory each next to this
file, and where others are found.
"""

from pathlib import Path

from scanline.model.formats import hub

DEFAULT = "mnist-small"
HERE = Path(__file__).parent


def names() -> list[str]:
    """Return the names of the shipped models, the default first."""
    names = sorted(path.parent.name for path in HERE.glob("*/config.json"))
    return sorted(names, key=lambda name: name != DEFAULT)


def find(name: str) -> Path:
    """Return the directory of a path, that of a shipped model, or that of a
    repository of the Hugging Face Hub, from which missing files are downloaded;
    ValueError with one sentence otherwise."""
    # what somebody has trained under a shipped model's name is meant
    for path in (Path(name), HERE / name):
        if (path / "config.json").is_file():
            return path
    if Path(name).is_dir():
        return Path(name)  # without config.json: loading it says what is wrong
    if hub.is_repository(name):
        return hub.fetch(name)
    raise ValueError(
        f"there is no model {name!r}: neither shipped ({', '.join(names())}) nor a directory"
    )
