"""The state of an engine as the processes that share it receive it, again and again."""

from dataclasses import dataclass
from pathlib import Path

from scanline.model.base.config import ModelConfig
from scanline.model.base.sampling_options import Defaults
from scanline.model.sampling.base.messages import Ready, Stats
from scanline.server.engine.handle import EngineHandle
from scanline.server.engine.worker.process import EngineOptions


@dataclass(frozen=True)
class EngineStatus:
    """One engine when this was sent."""

    options: EngineOptions
    directory: Path  # of the files of the model that is served, on the engine's machine
    config: ModelConfig
    defaults: Defaults  # of requests
    ready: Ready | None
    load_error: str | None
    failure_reason: str
    has_failed: bool
    is_ready: bool
    heartbeat_age: float  # seconds
    restarts: int
    load_seconds: float
    stats: Stats
    # images of the other processes that share it, in slots or waiting; over Ray it is not known
    others: int = 0
    replica: str = ""  # of a cluster, that sent this

    @classmethod
    def of(
        cls, engine: EngineHandle, config: ModelConfig, defaults: Defaults, others: int = 0
    ) -> "EngineStatus":
        """Return the present status of an engine of this process."""
        return cls(
            options=engine.options,
            directory=engine.directory,
            config=config,
            defaults=defaults,
            ready=engine.ready,
            load_error=engine.load_error,
            failure_reason=engine.failure_reason,
            has_failed=engine.failed.is_set(),
            is_ready=engine.is_ready,
            heartbeat_age=engine.heartbeat_age,
            restarts=engine.restarts,
            load_seconds=engine.load_seconds,
            stats=engine.stats,
            others=others,
        )

    @property
    def slots(self) -> int:
        """Images in flight at once; 0 while the model loads for the first time."""
        return self.ready.slots if self.ready else 0

    @property
    def digest(self) -> str:
        """Digest of the model that is loaded; empty before that."""
        return self.ready.digest if self.ready else ""

    @property
    def whole_digest(self) -> str:
        """The same, and that of its class head."""
        return self.ready.whole_digest if self.ready else ""
