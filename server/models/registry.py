"""The models of a server: which ones the settings name, what share of the
machine each gets, and their state.

A model that failed hides no other: it is listed with its reason, and
requests for it are refused with it.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from scanline.model import zoo
from scanline.model.base.inputs import check_count
from scanline.model.base.resources import cores
from scanline.model.formats.model_dir import CONFIG, ModelInfo, model_name, read_info
from scanline.server.engine.handle import EngineHandle
from scanline.server.engine.local.engine_client import EngineClient
from scanline.server.engine.queue_limits import QueueLimits
from scanline.server.engine.worker.process import EngineOptions
from scanline.server.settings import MODEL_NAME, Settings

HandleFactory = Callable[[EngineOptions, QueueLimits], EngineHandle]
ModelState = Literal["loading", "ready", "failed"]


class UnknownModelError(Exception):
    """The server has no model of the name that is the exception's argument."""


class ModelFailedError(Exception):
    """A model failed for good; the message is one sentence."""


@dataclass(frozen=True)
class ServedModel(ModelInfo):
    """A model of this server and the handle of its engine."""

    names: tuple[str, ...] = field(kw_only=True)  # by which requests select it
    created: int = field(kw_only=True)
    engine: EngineHandle = field(kw_only=True)

    @property
    def as_loaded(self) -> "ServedModel":
        """The model with the class head that its engine has loaded, or
        without: its files may differ from them.
        """
        ready = self.engine.ready
        if ready is None or bool(ready.class_head) == self.has_class_head:
            return self
        return replace(self, has_class_head=bool(ready.class_head))

    @property
    def id(self) -> str:
        """The first of its names, which answers and metrics have."""
        return self.names[0]

    @property
    def typical_bits_per_dim(self) -> list[float] | None:
        """Bits per dimension of 99 % of the test images."""
        return None if self.typicality is None else list(self.typicality.range)

    @property
    def state(self) -> ModelState:
        """State of the model: failed is for good, and an engine
        that is being restarted is loading.
        """
        if self.engine.failed.is_set():
            return "failed"
        return "ready" if self.engine.is_ready else "loading"

    @property
    def failure(self) -> str | None:
        """Reason of the failure, without the paths of its files,
        because any client may read this.
        """
        if self.state != "failed":
            return None
        reason = self.engine.load_error or self.engine.failure_reason
        for directory in (self.engine.directory, self.engine.options.directory):
            reason = reason.replace(str(directory), self.id)
        return reason


class ModelRegistry:
    """The models of a server by id; the first is the default.
    Invariant: no two have a name in common.
    """

    def __init__(
        self,
        models: list[ServedModel],
        max_images: int,
        request_timeout: float,
        resize: bool = False,
    ) -> None:
        self.all = {model.id: model for model in models}  # a reload replaces one
        self.ids = {name: model.id for model in models for name in model.names}
        self.max_images = max_images
        self.request_timeout = request_timeout
        self.resize = resize  # for requests that have no size_policy

    @property
    def default(self) -> ServedModel:
        """The first model, which requests that name none are for."""
        return next(iter(self.all.values())).as_loaded

    def find(self, name: str | None) -> ServedModel:
        """Return the model of that name, the default for None;
        UnknownModelError where there is none.
        """
        if name is None:
            return self.default
        if name not in self.ids:
            raise UnknownModelError(name)
        return self.all[self.ids[name]].as_loaded

    def usable(self, name: str | None) -> ServedModel:
        """As `find`; ModelFailedError where the model has failed."""
        model = self.find(name)
        if model.engine.failed.is_set():
            raise ModelFailedError(f"The model {model.id} cannot be served: {model.failure}.")
        return model

    def resizes(self, size_policy: str | None) -> bool:
        """Return whether images and uploads of a request are resized."""
        return self.resize if size_policy is None else size_policy == "resize"

    def check_count(self, images: int, param: str, counted: str = "") -> None:
        """InvalidInput where a request has more images than one request may
        have; `counted`: how often each is.
        """
        check_count(images, self.max_images, param, counted)

    async def all_failed(self) -> None:
        """Return when every engine has failed for good: the server then exits, so
        that its supervisor restarts it.
        """
        while alive := [
            model.engine for model in self.all.values() if not model.engine.failed.is_set()
        ]:
            await alive[0].failed.wait()  # or it is replaced by a reload

    def raise_load_errors(self) -> None:
        """ValueError with the reasons if no model could be loaded."""
        errors = [model.engine.load_error for model in self.all.values()]
        if all(errors):
            raise ValueError("; ".join(map(str, errors)))


def served_models(settings: Settings, make_handle: HandleFactory = EngineClient) -> ModelRegistry:
    """Return the models that the settings name, their engines not yet
    started; ValueError where one is wrong.
    """
    directories = _directories(settings.models)
    names = _names(settings, directories)
    threads = _threads(settings, len(directories))
    limits = queue_limits(settings)
    served = []
    for directory, own_threads in zip(directories, threads, strict=True):
        options = engine_options(
            settings, directory, own_threads, 1 / len(directories), names[model_name(directory)]
        )
        read_info(directory)  # an error in it names the directory, not the engine's copy of it
        served.append(served_model(make_handle(options, limits)))
    return model_registry(settings, served)


def model_registry(settings: Settings, served: list[ServedModel]) -> ModelRegistry:
    """Return the registry of these models."""
    return ModelRegistry(
        served, settings.max_images_per_request, settings.request_timeout, settings.resize
    )


def queue_limits(settings: Settings) -> QueueLimits:
    """Return what the requests of one model may take."""
    return QueueLimits(
        settings.max_waiting_images,
        settings.client_share,
        settings.max_unread_bytes,
        settings.request_timeout,
    )


def served_model(engine: EngineHandle) -> ServedModel:
    """Return the model whose files the engine has; ModelDirectoryError where they are wrong."""
    directory = engine.directory
    info = read_info(directory)
    _ = info.config.word_tree  # made here, where no request waits for it
    return ServedModel(
        **vars(info),
        names=engine.options.names or (engine.options.name,),
        created=int((directory / CONFIG).stat().st_mtime),
        engine=engine,
    )


def engine_options(
    settings: Settings,
    directory: Path,
    threads: int | None,
    share: float = 1.0,
    names: tuple[str, ...] = (),
) -> EngineOptions:
    """Return the options of an engine for the model in `directory`; share: of the
    memory that all engines may take.
    """
    return EngineOptions(
        directory=directory,
        names=names,
        device=settings.device,
        slots=None if settings.slots == "auto" else settings.slots,
        threads=threads,
        precision=settings.precision,
        backend=settings.backend,
        share=share,
        log_format=settings.log_format,
        log_level=settings.log_level,
        timeout=settings.engine_timeout,
        load_timeout=settings.load_timeout,
    )


def _directories(names: Sequence[str]) -> list[Path]:
    """Return the models' directories; ValueError where one is missing or two have the same name."""
    directories: dict[str, Path] = {}
    for name in names:
        directory = zoo.find(name).resolve()
        other = directories.setdefault(model_name(directory), directory)
        if other != directory:
            raise ValueError(
                f"--model: {other} and {directory} have the same name, by which requests select them"
            )
    if len(directories) < len(names):
        raise ValueError(f"--model: one is given twice among {', '.join(names)}")
    return list(directories.values())


def _names(settings: Settings, directories: Sequence[Path]) -> dict[str, tuple[str, ...]]:
    """Return the names of each model by its directory's: those that it is served by, then its own;
    ValueError where a setting names no model, or a name is given to two."""
    directory_names = [model_name(directory) for directory in directories]
    served: dict[str, list[str]] = {name: [] for name in directory_names}
    for text in settings.served_model_names:
        name, _, model = text.partition("=")
        if (model or directory_names[0]) not in served:
            raise ValueError(
                f"--served-model-name {text}: {model} is not among the models {', '.join(directory_names)}"
            )
        served[model or directory_names[0]].append(name)
    # of a directory from anybody; words of it may be separated by a space
    for name in directory_names:
        if all(re.fullmatch(MODEL_NAME, word) for word in name.split(" ")):
            served[name].append(name)
        elif not served[name]:
            raise ValueError(
                f"--model: {name!r} is no name for a model; rename the directory, or give --served-model-name"
            )
    names = {model: tuple(dict.fromkeys(served[model])) for model in directory_names}
    taken = [name for of_model in names.values() for name in of_model]
    for name in taken:
        if taken.count(name) > 1:
            raise ValueError(
                f"--served-model-name: two models have the name {name}, by which requests select them"
            )
    return names


def _threads(settings: Settings, models: int) -> list[int | None]:
    """Return the threads of each model's engine: the setting, or for auto an equal
    share of the cores, at least one.
    """
    if settings.threads != "auto":
        return [settings.threads] * models
    if models == 1:
        return [None]
    equal, left_over = divmod(cores(), models)
    return [max(1, equal + 1 if place < left_over else equal) for place in range(models)]
