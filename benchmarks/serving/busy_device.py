"""Share of the time for which an engine and the API keep a fast device busy: a simulated one, 4,096 images in flight.

    python -m benchmarks.serving.busy_device [--images 20000] [--api-processes 1,4] [--completions 0.25]

For requests of several sizes, two measurements. *Engine*: an engine's process and its loop, sent requests through its
pipe; "busy" is the share of the device's time in which it had work while images waited for slots, by the device's own
clock (simulated_device.py), and images/s is what that comes to; also where a share of the requests are completions, of
which each reads the upper half of a picture first. *API*: a server with such an engine, so many API
processes and HTTP clients; processor seconds for 1,000 images, of the event loops of the API processes, of their other
threads, and of the main process, which a core each must have time for: a loop for its part of the requests, the main
process for all. Clients are not counted. Wall time says nothing here: the machine is shared by all of them.
"""

import argparse
import asyncio
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.serving import simulated_device
from benchmarks.serving.client import GENERATIONS, JSON, NPY, PNG, HttpClient
from benchmarks.serving.server import Server, free_port, processor_seconds, raise_descriptor_limit, wait_until_ready
from benchmarks.serving.simulated_device import SimulatedBackend, SimulatedOptions
from scanline.model.machine import print_json
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.messages import Event, Finished, GenerateRequest, Stop
from scanline.server.engine.local.engine_client import EngineClient
from scanline.server.engine.pipe import Pipe
from scanline.server.engine.queue_limits import QueueLimits
from scanline.server.engine.worker.process import EngineOptions, run
from scanline.server.models.registry import served_models
from scanline.server.process import running
from scanline.server.process.listening import listen
from scanline.server.process.workers import supervisor
from scanline.server.runtime import logs
from scanline.server.settings import Settings

SLOTS = 4096
TARGET = 6000  # images a second
CLIENTS = 1024  # connections
HALF_KNOWN = bytes(784), bytes([1]) * 392 + bytes(392)  # a picture and its mask


@dataclass(frozen=True)
class EngineResult:
    """What an engine did."""

    busy: float  # share of the device's time
    images_per_second: float  # by the device's clock
    engine_seconds: float  # processor time of 1,000 images


class MeasuredEngine(Engine):
    """Engine that notes the device's time, its work and the processor's while all slots are taken and images wait."""

    marks: list[tuple[float, float, float, int]]

    def tick(self) -> list[Event]:
        events = super().tick()
        backend = self.generator.backend
        assert isinstance(backend, SimulatedBackend)
        if self.recorder.batch == self.generator.slots and self.scheduler.images_waiting:
            painted = self.recorder.painted_bytes // self.length
            self.marks.append((backend.clock.now(), backend.busy, time.process_time(), painted))
        return events


def _engine_process(directory: Path, connection: Connection, results: Connection) -> None:
    engine = MeasuredEngine(SimulatedOptions(directory, slots=SLOTS).generator())
    engine.marks = []
    connection.send([])
    run(engine, connection)
    (began, busy, seconds, images), (ended, last_busy, last_seconds, last_images) = engine.marks[0], engine.marks[-1]
    painted = last_images - images
    results.send(
        EngineResult(
            (last_busy - busy) / (ended - began),
            painted / (ended - began),
            1000 * (last_seconds - seconds) / painted,
        )
    )


def measure_engine(directory: Path, size: int, images: int, completions: float = 0.0) -> EngineResult:
    """Let an engine paint `images` images in requests of `size`, twice as many at once as it has slots; a share of the
    requests are completions."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    results, results_end = context.Pipe()
    process = context.Process(target=_engine_process, args=(directory, theirs, results_end))
    process.start()
    theirs.close()  # so that an engine that dies ends the measurement
    results_end.close()
    ours.recv()
    asyncio.run(_keep_busy(ours, size, images, completions))
    result: EngineResult = results.recv()
    process.join()
    return result


async def _keep_busy(connection: Connection, size: int, images: int, completions: float) -> None:
    """Send the engine requests as the API does, until all are painted or the engine has ended."""
    requests = iter(range(images // size))
    left: dict[int, int] = {}
    room = 2 * SLOTS

    def send() -> None:
        nonlocal room
        while room >= size and (number := next(requests, None)) is not None:
            completes = int((number + 1) * completions) > int(number * completions)
            known, masks = ((HALF_KNOWN[0],), (HALF_KNOWN[1],)) if completes else ((), ())
            pipe.send(GenerateRequest(number, size, seed=number, known=known, masks=masks))
            left[number], room = size, room - size
        if not left:
            pipe.send(Stop())

    def receive(events: list[Event]) -> None:
        nonlocal room
        for event in events:
            if isinstance(event, Finished):
                room += 1
                left[event.request] -= 1
                if not left[event.request]:
                    del left[event.request]
                send()

    pipe = Pipe(connection, receive, "busy-device")
    send()
    await pipe.closed.wait()
    await asyncio.to_thread(pipe.close)


@dataclass(frozen=True)
class ApiResult:
    """Processor milliseconds of an image."""

    processes: int
    loop: float  # of the event loops of all API processes
    others: float  # of their other threads
    main: float  # of the main process; 0 where it is the API process
    engine: float

    @property
    def cores(self) -> float:
        """That the API needs for TARGET images a second."""
        return (self.loop + self.others + self.main) * TARGET / 1000

    @property
    def processes_needed(self) -> int:
        """API processes whose event loops have time for TARGET images a second."""
        return ceil(self.loop * TARGET / 1000)


def _server_process(directory: Path, port: int, processes: int) -> None:
    """Run a server whose engine has the simulated device."""
    settings = Settings(
        models=(str(directory),), port=port, api_processes=processes,
        max_waiting_images=8 * SLOTS, max_images_per_request=SLOTS,
        client_share=1.0, max_connections=4 * SLOTS, log_level="warning",
    )  # fmt: skip

    def handle(options: EngineOptions, limits: QueueLimits) -> EngineClient:
        return EngineClient(SimulatedOptions(options.directory, slots=SLOTS, log_level="warning"), limits)

    logs.configure("console", "warning")
    with listen(settings) as listening:
        run_server = running.run if processes == 1 else supervisor.run
        asyncio.run(run_server(settings, served_models(settings, handle), listening))


@contextmanager
def served(directory: Path, processes: int) -> Iterator[Server]:
    """Start a server in a process of its own, and stop it when the context ends."""
    port = free_port()
    process = multiprocessing.get_context("spawn").Process(target=_server_process, args=(directory, port, processes))
    process.start()
    try:
        assert process.pid is not None
        yield Server(wait_until_ready(f"http://127.0.0.1:{port}"), process.pid)
    finally:
        process.terminate()
        process.join()


def measure_api(server: Server, size: int, images: int, accept: str) -> ApiResult:
    """Let clients ask for `images` images in requests of `size`, twice the slots at once but at most CLIENTS."""
    before = _seconds(server)
    requests = iter(range(images // size))

    async def ask(client: HttpClient) -> None:
        for seed in requests:
            await client.ask(GENERATIONS, {"n": size, "seed": seed, "class": "none"}, accept)

    async def clients() -> None:
        client = HttpClient(server.url)
        await asyncio.gather(*(ask(client) for _ in range(min(CLIENTS, 2 * SLOTS // size))))
        client.close()

    asyncio.run(clients())
    loop, api, main, engine = np.subtract(_seconds(server), before) * 1000 / images
    return ApiResult(len(server.api_processes), loop, max(0.0, api - loop), main, engine)


def _seconds(server: Server) -> tuple[float, float, float, float]:
    """Return processor seconds of the API's event loops, of all its threads, of the main process and of the engine."""
    processes, used = server.api_processes, server.processor()
    loops = sum(processor_seconds(process, process) for process in processes)
    main = 0.0 if server.pid in processes else processor_seconds(server.pid)
    return loops, used["api"], main, used["engine"]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--images", type=int, default=20_000, help="of each measurement")
    options.add_argument("--api-processes", default="1,4", help="numbers of them, separated by commas")
    options.add_argument("--completions", type=float, default=0.25, help="share of requests in the second engine table")
    arguments = options.parse_args()
    images: int = arguments.images
    raise_descriptor_limit()
    console, rows = Console(), []
    with tempfile.TemporaryDirectory() as folder:
        directory = simulated_device.model(Path(folder) / "simulated")
        table = Table(
            "request",
            "completions",
            "busy",
            "images/s",
            "engine ms/image",
            title=f"engine, {SLOTS} in flight",
            title_justify="left",
        )
        for completions in (0.0, arguments.completions):
            for size in (1024, 64, 4, 1):
                result = measure_engine(directory, size, max(images, 4 * SLOTS), completions)
                rows.append({"part": "engine", "size": size, "completions": completions, **vars(result)})
                numbers = (result.busy, result.images_per_second, result.engine_seconds)
                cells = (f"{completions:.0%}", *(f"{number:.3g}" for number in numbers))
                table.add_row(f"{size} images", *cells)
        console.print(table)
        table = Table(
            "request", "answer", "processes", "loops ms/image", "threads", "main", "engine", f"cores at {TARGET}/s",
            "loops for it", title="API", title_justify="left",
        )  # fmt: skip
        for processes in map(int, arguments.api_processes.split(",")):
            with served(directory, processes) as server:
                for size, accept in ((1024, NPY), (64, NPY), (64, JSON), (4, JSON), (1, JSON), (1, PNG)):
                    api = measure_api(server, size, images // 4 if size > 1 else images // 16, accept)
                    rows.append({"part": "api", "size": size, "accept": accept, **vars(api), "cores": api.cores})
                    numbers = (api.loop, api.others, api.main, api.engine, api.cores)
                    cells = (*(f"{number:.3g}" for number in numbers), str(api.processes_needed))
                    table.add_row(f"{size} images", accept.partition("/")[2], str(processes), *cells)
        console.print(table)
    print_json("busy_device", vars(arguments), rows=rows)


if __name__ == "__main__":
    main()
