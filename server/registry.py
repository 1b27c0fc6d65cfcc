"""The models that settings name, each with an engine of its own that gets its part of the machine."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from scanline.model import zoo
from scanline.model.formats.model_dir import load_config, tested_bits_per_dim
from scanline.server.engine.client.engine_client import EngineClient
from scanline.server.engine.client.handle import EngineHandle
from scanline.server.engine.worker.process import EngineOptions
from scanline.server.served import Models, ServedModel
from scanline.server.settings import Settings

HandleFactory = Callable[[EngineOptions, int, int], EngineHandle]  # options, images that may wait, bytes of an image


def served_models(settings: Settings, desk: HandleFactory = EngineClient) -> Models:
    """The models that the settings name and their desks, not yet started; ValueError where one is wrong."""
    directories = _directories(settings.models)
    threads = _threads(settings, len(directories))
    served = []
    for directory, of_its_own in zip(directories, threads, strict=True):
        options = engine_options(settings, directory, of_its_own, 1 / len(directories))
        config = load_config(directory)
        model = ServedModel(
            id=directory.name,
            config=config,
            bits_per_dim=tested_bits_per_dim(directory),
            created=int((directory / "config.json").stat().st_mtime),
            engine=desk(options, settings.max_waiting_images, config.bytes),
        )
        served.append(model)
    return Models(served, settings.max_images_per_request, settings.request_timeout)


def engine_options(settings: Settings, directory: Path, threads: int | None, share: float = 1.0) -> EngineOptions:
    """What an engine of the model in `directory` is started with; `share`: of the memory that all of them may take."""
    return EngineOptions(
        directory,
        settings.device,
        None if settings.slots == "auto" else settings.slots,
        threads,
        settings.precision,
        share,
        settings.log_format,
        settings.log_level,
        settings.engine_timeout,
        settings.load_timeout,
    )


def _directories(names: Sequence[str]) -> list[Path]:
    """Where the models are; ValueError where one is not there or two answer to the same name."""
    found: dict[str, Path] = {}
    for name in names:
        directory = zoo.find(name).resolve()
        other = found.setdefault(directory.name, directory)
        if other != directory:
            raise ValueError(f"--model: {other} and {directory} have the same name, by which requests ask for them")
    if len(found) < len(names):
        raise ValueError(f"--model: one is given twice among {', '.join(names)}")
    return list(found.values())


def _threads(settings: Settings, models: int) -> list[int | None]:
    """Threads of each model's engine: those that are set, or for auto its part of the cores, at least one."""
    if settings.threads != "auto":
        return [settings.threads] * models
    if models == 1:
        return [None]
    each, over = divmod(cores(), models)
    return [max(1, each + (place < over)) for place in range(models)]


def cores() -> int:
    """Of the machine, or those of it that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
