"""Everything that crosses the pipe between the main process and an API process, in lists. Events of an engine go to
the API process as they are, with the id that the request has there.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scanline.model.sampling.messages import Ready, Request, Stats
from scanline.server.engine.worker.process import EngineOptions


@dataclass(frozen=True)
class Begin:
    """Have a model's engine do a request."""

    model: str
    request: Request


@dataclass(frozen=True)
class Leave:
    """Cancel a request that has not ended."""

    request: int


@dataclass(frozen=True)
class Reload:
    """Load a model again; the answer comes when it is served, or cannot be."""

    call: int
    model: str


@dataclass(frozen=True)
class CollectMetrics:
    """Return the metrics of all API processes, or, from the main process, of this one."""

    call: int


@dataclass(frozen=True)
class Answer:
    """The answer to the call of that number; an exception is raised where the call was made."""

    call: int
    value: Any


@dataclass(frozen=True)
class Alive:
    """The answer to a report: this API process is not silent."""


@dataclass(frozen=True)
class Drained:
    """This API process has nothing left to answer; from the main process: all have drained, exit."""


@dataclass(frozen=True)
class EngineStatus:
    """What an API process knows of an engine."""

    options: EngineOptions
    directory: Path  # of the files of the model that is served
    ready: Ready | None
    load_error: str | None
    death: str
    has_failed: bool
    is_ready: bool
    heartbeat_age: float  # seconds, when this was sent
    restarts: int
    load_seconds: float
    stats: Stats
    others: int  # images of the other API processes, in slots or waiting


Statuses = dict[str, EngineStatus]  # by model, in the order of the registry
