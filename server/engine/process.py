"""The engine's process: loads the model, then ticks while there is work and waits while there is none.

It lives as long as its parent: a closed pipe ends it, whatever it was doing.
"""

import atexit
import logging
import multiprocessing
import os
import signal
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from model.checkpoint import load_model
from model.device import resolve_device
from model.generator import Generator
from model.precision import DEFAULT, precision
from server import logs
from server.engine.loop import Engine
from server.engine.messages import CannotLoad, Ready, Stop

log = logging.getLogger("scanline.engine")

AUTO_SHARE = 0.25  # of free memory that `slots="auto"` gives to states
AUTO_MOST = {"cpu": 1024, "cuda": 16384}  # more in flight paints no faster


@dataclass(frozen=True)
class EngineOptions:
    """What an engine is started with."""

    directory: Path
    device: str = "auto"  # or cpu, cuda
    slots: int | None = None  # None: from free memory
    threads: int | None = None  # None: all cores
    precision: str = DEFAULT
    share: float = 1.0  # of the free memory that all engines of a server may give to slots
    log_format: str = "console"
    log_level: str = "info"


def start(options: EngineOptions) -> tuple[multiprocessing.process.BaseProcess, Connection]:
    """Starts the process; its end of the pipe is closed here, so that its death is our end of file.

    Signals meant for a whole group of processes are ours to handle: it is born with them blocked.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_main, args=(options, theirs), name="scanline-engine", daemon=True)
    resource_tracker.ensure_running()  # which would unblock them
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    atexit.register(process.kill)  # where it was not closed: multiprocessing would wait for what SIGTERM does to it
    theirs.close()
    return process, ours


def auto_slots(state_bytes: int, device: str, share: float = 1.0) -> int:
    """Slots for a share of the free memory: a quarter of it in states, at most what still makes painting faster."""
    if device == "cuda":
        free, _ = torch.cuda.mem_get_info()
    else:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(AUTO_MOST[device], int(AUTO_SHARE * share * free) // state_bytes))


def _main(options: EngineOptions, connection: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle; it closes the pipe
    logs.configure(options.log_format, options.log_level)
    try:
        device = resolve_device(options.device)
        model = load_model(options.directory, device)
        state_bytes = precision(options.precision).state_bytes(model.config)
        slots = options.slots or auto_slots(state_bytes, device, options.share)
        generator = Generator(model, slots, options.threads, options.precision)
        generator.warm_up()
        log.info("%s on %s: %s slots of %s bytes", options.directory.name, device, slots, state_bytes)
        connection.send([Ready(model.parameter_count, slots, device, state_bytes, generator.backend.name)])
        _run(Engine(generator), connection)
    except ValueError as error:
        connection.send([CannotLoad(str(error))])
    except (EOFError, BrokenPipeError, ConnectionResetError):
        log.info("the server is gone; so is its engine")


def _run(engine: Engine, connection: Connection) -> None:
    """Takes all commands that lie there, ticks, tells; returns on Stop, EOFError when the parent is gone."""
    while True:
        if engine.idle:
            connection.poll(None)
        while connection.poll():
            command = connection.recv()
            if isinstance(command, Stop):
                return
            engine.accept(command)
        events = engine.tick()
        if engine.meter.due(engine.idle):
            events.append(engine.stats())
        if events:
            connection.send(events)
