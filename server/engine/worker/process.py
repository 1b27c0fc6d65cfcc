"""The engine's process: loads the model, then ticks while there is
work and waits while there is none.

It exits when it runs out of memory and when the server ends. It is a fork of a process
that has imported torch (forkserver.py); the server's own process does not import it,
since it would be most of its memory.
"""

import gc
import logging
import os
from collections import deque
from dataclasses import dataclass, replace
from math import inf
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from scanline.model.base.device import AUTO
from scanline.model.base.precision import DEFAULT, precision
from scanline.model.base.resources import free_memory, limit_torch_threads
from scanline.model.formats.model_dir import model_name
from scanline.model.sampling.base.messages import CannotLoad, Command, Event, Ready, Scheduled, Stop
from scanline.model.sampling.prefill.prefixes import PER_SLOT
from scanline.server.engine.worker.forkserver import CONTEXT, let_it_exit
from scanline.server.engine.worker.model_copy import copy_weights
from scanline.server.runtime import child_process

if TYPE_CHECKING:
    from scanline.model.sampling.base.generator import Generator
    from scanline.model.sampling.engine import Engine

log = logging.getLogger("scanline.engine")

UNRECOVERABLE = 70  # exit status

AUTO_SHARE = 0.25  # of free memory that `slots="auto"` gives to states
# More images in flight paint no faster (on a GPU computed, not measured), and each of them later.
MAX_AUTO_SLOTS = {"cpu": 1024, "cuda": 4096}
# Slots: four images that take the most, 64 each, and a quarter of one.
SMALL = 256
MAX_SPARE = 16
# a tick, during which a device has its next steps already: what new commands may take of it
ACCEPT_SECONDS = 0.025
HEARTBEAT_SECONDS = 1.0  # between two heartbeats of an idle engine; a busy one reports more often


@dataclass(frozen=True)
class EngineOptions:
    """Everything an engine is started with."""

    directory: Path
    names: tuple[str, ...] = ()  # of the model; requests select it by any of them
    device: str = "auto"  # or cpu, cuda
    slots: int | None = None  # None: from free memory
    threads: int | None = None  # None: all cores
    precision: str = DEFAULT
    backend: str = AUTO  # or the name of the only one to try
    share: float = 1.0  # of the free memory that all engines of a server may give to slots
    log_format: str = "console"
    log_level: str = "info"
    timeout: float = inf  # seconds without a heartbeat after which it counts as hung
    load_timeout: float = inf  # the same while it loads
    copy: Path | None = None  # of the directory (ModelCopy), which is loaded in its place
    is_copied: bool = False  # whether the copy has its weights already

    @property
    def name(self) -> str:
        """The model's name, where it has several the first."""
        return self.names[0] if self.names else model_name(self.directory)

    def generator(self) -> "Generator":
        """Load the model, allocate the slots and try the backend;
        ValueError where that cannot be done.
        """
        from scanline.model.base.device import resolve_backend
        from scanline.model.formats.checkpoint import load_model
        from scanline.model.sampling.base.generator import Generator

        limit_torch_threads()
        device, backends = resolve_backend(self.device, self.backend)
        model = load_model(self.directory, device)
        chosen = precision(self.precision)
        state_bytes = chosen.state_bytes(model.config, device)
        slots = self.slots or auto_slots(
            state_bytes, device, self.share, bfloat16_state=chosen.bfloat16_state
        )
        log.info("%s on %s: %s slots of %s bytes", self.name, device, slots, state_bytes)
        return Generator(model, slots, self.threads, self.precision, backends, spare_slots(slots))


def process_of(options: EngineOptions, connection: Connection) -> ForkServerProcess:
    """Return an engine's process, which is not started yet; connection: its end of the pipe."""
    return CONTEXT.Process(
        target=_main, args=(options, connection), name="scanline-engine", daemon=True
    )


def auto_slots(
    state_bytes: int, device: str, share: float = 1.0, *, bfloat16_state: bool = False
) -> int:
    """Return the slots that a share of the free memory has room for: a quarter of it in
    states, those of prefixes included, at most what still makes painting faster, which is
    twice as many where states are half as large."""
    if device == "cuda":
        import torch

        free, _ = torch.cuda.mem_get_info()
    else:
        free = free_memory()
    most = MAX_AUTO_SLOTS[device] * (2 if bfloat16_state else 1)
    return max(1, min(most, int(AUTO_SHARE * share * free / (state_bytes * (1 + PER_SLOT)))))


def spare_slots(slots: int) -> int:
    """Return the slots besides, for others while one image has nearly all
    of a small engine.
    """
    return min(MAX_SPARE, (slots + 2) // 4) if slots < SMALL else 0


def _main(options: EngineOptions, connection: Connection) -> None:
    let_it_exit()
    child_process.set_up(connection, options.log_format, options.log_level)
    from scanline.model.sampling.base.errors import synchronize, unrecoverable
    from scanline.model.sampling.engine import Engine

    wait_for_device = synchronize
    try:
        if options.copy is not None and not options.is_copied:
            copy_weights(options.directory, options.copy)
        generator = replace(options, directory=options.copy or options.directory).generator()
        wait_for_device = generator.synchronize
        model = generator.model
        state_bytes = generator.pool.state.nbytes // len(generator.pool.images)
        ready = Ready(
            model.parameter_count,
            generator.slots,
            model.device.type,
            state_bytes,
            generator.backend.name,
            generator.digest,
            generator.backend_name,
            generator.fallbacks,
            generator.codings,
            generator.class_head_digest,
        )
        connection.send([ready])
        run(Engine(generator), connection)
    except ValueError as error:
        message = str(error)
        if not options.is_copied:  # later the copy is what is wrong
            message = message.replace(
                str(options.copy or options.directory), str(options.directory)
            )
        connection.send([CannotLoad(message)])
    except (EOFError, BrokenPipeError, ConnectionResetError):
        log.info("the server process ended: the engine exits")
    except Exception as error:
        if reason := unrecoverable(error, wait_for_device):
            log.critical("%s: the engine exits and the server starts a new one (%s)", reason, error)
        else:
            log.critical("the engine exits", exc_info=error)
        logging.shutdown()
        os._exit(UNRECOVERABLE if reason else 1)


def run(engine: "Engine", connection: Connection) -> None:
    """Accept waiting commands, tick, send the events; return on Stop,
    EOFError when the parent has ended.

    Nothing else sends, so that a tick that does not end is noticed as silence. Commands that keep
    coming do not stop the ticks. No client waits for a Scheduled: it is sent with the next other
    event, so that the parent is not woken for it while it shares the engine's processors.
    """
    gc.freeze()  # a collection then looks at requests, not at all that torch has imported
    commands: deque[Command] = deque()
    events: list[Event] = []
    while True:
        while engine.idle and not commands and not connection.poll(HEARTBEAT_SECONDS):
            connection.send([])
        until = monotonic() + ACCEPT_SECONDS
        while (commands or connection.poll()) and monotonic() < until:
            if not commands:
                commands.extend(connection.recv())
            command = commands.popleft()
            if isinstance(command, Stop):
                return
            engine.accept(command)
        events += engine.tick()
        if engine.recorder.due(engine.idle):
            events.append(engine.stats())
        if not all(isinstance(event, Scheduled) for event in events):
            connection.send(events)
            events = []
