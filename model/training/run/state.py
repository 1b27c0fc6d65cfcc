"""The state of a run in training.pt: weights, average, optimiser, those of its other branches,
position. Reading it runs no code of the file, and writing it is atomic."""

from dataclasses import MISSING, asdict, fields
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import torch

from scanline.model.base.atomic import write_file
from scanline.model.base.config import ModelConfig, stored_name
from scanline.model.base.named_files import FileError, check_file
from scanline.model.formats.checkpoint import load_model
from scanline.model.training.config import TrainingConfig, former_options

FILE = "training.pt"
HALF_BYTES = 2  # of a weight in float16
OTHER_BYTES = 2_000_000  # of a run's sheets, curve, card and class head, at most
OF_BRANCH = ("model", "average", "optimiser")  # parts of a branch's state
# fields that a resumed run may change: its length, and whatever does not change an update
FREE = {
    "updates",
    "minutes",
    "schedule",
    "decay",
    "checkpoint_every",
    "evaluate_images",
    "sample_images",
}


class ResumeError(FileError):
    """The state on disk cannot be resumed."""


def room_for_state(limit: float, weights: int, config: TrainingConfig) -> float:
    """Return the bytes that the state of a run may have, where all of its files may have `limit`.
    ValueError where they are too few, however little of the state is saved."""
    if config.branches > 1:
        raise ValueError("a run of branches saves the state of each, and has no limit of its files")
    models = 1 + config.has_plateau  # the average, and what is kept of the plateau
    least = OTHER_BYTES + HALF_BYTES * weights * (models + 1)
    if limit < least:
        raise ValueError(
            f"the files of {weights:,} weights need {least / 1e6:.1f} MB, not {limit / 1e6:g}"
        )
    return limit - OTHER_BYTES - HALF_BYTES * weights * models


def save_state(directory: Path, state: dict[str, Any], room: float | None = None) -> None:
    """Write the state to `directory`, atomically: a full disk or a kill leaves the previous state.
    If it has more bytes than `room`, only the weights are written, in float16: a run that resumes
    takes the average from the saved model, and its optimiser starts anew."""
    data = _serialised(state)
    if room is not None and data.nbytes > room:
        weights = {name: weight.half() for name, weight in state["model"].items()}
        data = _serialised(state | {"model": weights, "average": {}, "optimiser": {}})
    write_file(directory / FILE, data)


def _serialised(state: dict[str, Any]) -> memoryview:
    file = BytesIO()  # torch.save to a file hides the reason of a failure
    torch.save(state, file)
    return file.getbuffer()


def saved_configs(directory: Path) -> tuple[ModelConfig, TrainingConfig]:
    """Return the model and the recipe of the run in `directory`; ResumeError where there is none of
    this program."""
    path, state = _read(directory, torch.device("cpu"))
    try:
        model = ModelConfig.from_dict(state["model_config"])
        return model, TrainingConfig.from_saved(state["config"])
    except (TypeError, ValueError) as error:
        raise ResumeError(f"{path} is of another version of this program: {error}") from None


def load_state(
    directory: Path, model: ModelConfig, config: TrainingConfig, device: torch.device
) -> dict[str, Any]:
    """Return the state of a run of this model and recipe; ResumeError for anything else."""
    path, state = _read(directory, device)
    defaults = {stored_name(name): value for name, value in _defaults(ModelConfig).items()}
    saved_model = defaults | state["model_config"]
    for field, value in asdict(model).items():
        name = stored_name(field)
        saved = saved_model.get(name)
        if saved != value:
            raise ResumeError(
                f"{path} is of another model: {name} is {saved!r} there, {value!r} here"
            )
    saved_config = _defaults(TrainingConfig) | state["config"]
    for name, value in asdict(config).items():
        saved = saved_config.get(name)
        if name not in FREE and saved != value:
            raise ResumeError(f"{path} is of another recipe: {name} is {saved} there, {value} here")
    former = former_options(state["config"])
    if former:
        raise ResumeError(
            f"{path} is of a run with {former}, which this version lacks; --from {directory}"
            " continues from its weights"
        )
    if len(state["others"]) != config.branches - 1:
        raise ResumeError(f"{path} has {len(state['others']) + 1} of {config.branches} branches")
    if not state["average"]:
        state["average"] = load_model(directory, device).state_dict()
    return state


def _defaults(kind: type[ModelConfig | TrainingConfig]) -> dict[str, Any]:
    """Return the defaults of a configuration's fields: what the state of an earlier version
    lacks."""
    return {field.name: field.default for field in fields(kind) if field.default is not MISSING}


def _read(directory: Path, device: torch.device) -> tuple[Path, dict[str, Any]]:
    """Return the state's path and its content, checked to have every part."""
    path = directory / FILE
    if not path.exists():
        raise ResumeError(f"there is nothing to resume: {path} is missing")
    try:
        check_file(path)
        if not is_zipfile(path):  # torch would try its older format
            raise ValueError("it is truncated or another kind of file")
        state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
    except Exception as error:  # torch may find anything in a stranger's file
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ResumeError(f"{path} is not a training state: {reason}") from None
    try:
        parts = {part: state[part] for part in (*OF_BRANCH, "update", "seconds")}
        others = state.get("others", [])
        parts["others"] = [{part: other[part] for part in OF_BRANCH} for other in others]
        parts["model_config"] = dict(state["model_config"])
        parts["config"] = dict(state["config"])
        return path, parts
    except (TypeError, KeyError, ValueError):
        raise ResumeError(f"{path} is not a training state of this program") from None
