"""How busy an engine and the API keep a fast device: a simulated one, with 4,096 images in flight.

    python -m benchmarks.serving.busy_device [--images 20000]

For requests of several sizes, two measurements. *Engine*: an engine's process and its loop, sent requests through its
pipe; "busy" is the share of the device's time in which it had work while images waited for slots, by the device's own
clock (simulated_device.py), and images/s is what that comes to. *API*: a server with such an engine and HTTP clients;
processor seconds for 1,000 images, of the API's event loop, which one core must have time for, and of its other
threads. Clients are not counted. Wall time says nothing here: the machine is shared by engine, API and clients.
"""

import argparse
import asyncio
import multiprocessing
import queue
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import httpx
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.serving import simulated_device
from benchmarks.serving.client import GENERATIONS, http_client, raise_for_error
from benchmarks.serving.server import Server, processor_seconds, raise_descriptor_limit, wait_until_ready
from benchmarks.serving.simulated_device import SimulatedBackend, SimulatedOptions
from scanline.model.bench.machine import print_json
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.messages import Event, Finished, GenerateRequest, Stop
from scanline.server import logs, running
from scanline.server.api.answers import JSON, NPY
from scanline.server.engine.client.engine_client import EngineClient
from scanline.server.engine.worker.process import EngineOptions, run
from scanline.server.listening import listen
from scanline.server.registry import served_models
from scanline.server.settings import Settings

SLOTS = 4096
TARGET = 6000  # images a second
CLIENTS = 1024  # connections
PNG = "image/png"


@dataclass(frozen=True)
class EngineResult:
    """What one engine did."""

    busy: float  # share of the device's time
    images_per_second: float  # by the device's clock
    engine_seconds: float  # processor time of 1,000 images


class MeasuredEngine(Engine):
    """Notes the device's time, its work and the processor's time whenever all slots are taken and images wait."""

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


def measure_engine(directory: Path, size: int, images: int) -> EngineResult:
    """Have an engine paint `images` images in requests of `size`, twice as many at once as it has slots."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    results, results_end = context.Pipe()
    process = context.Process(target=_engine_process, args=(directory, theirs, results_end))
    process.start()
    ours.recv()
    requests = iter(range(images // size))
    left: dict[int, int] = {}
    room = 2 * SLOTS
    outbox: queue.SimpleQueue[GenerateRequest | Stop] = queue.SimpleQueue()
    writer = threading.Thread(target=_write, args=(ours, outbox))
    writer.start()
    while True:
        while room >= size and (number := next(requests, None)) is not None:
            outbox.put(GenerateRequest(number, size, seed=number))
            left[number], room = size, room - size
        if not left:
            break
        for event in ours.recv():
            if isinstance(event, Finished):
                room += 1
                left[event.request] -= 1
                if not left[event.request]:
                    del left[event.request]
    outbox.put(Stop())
    result: EngineResult = results.recv()
    process.join()
    writer.join()
    return result


def _write(connection: Connection, outbox: "queue.SimpleQueue[GenerateRequest | Stop]") -> None:
    """The writer's thread: an engine that waits for us to read must not wait for what we write."""
    while not isinstance(command := outbox.get(), Stop):
        connection.send(command)
    connection.send(command)


@dataclass(frozen=True)
class ApiResult:
    """Processor milliseconds of an image."""

    loop: float  # of the API's event loop
    others: float  # of its other threads
    engine: float

    @property
    def cores(self) -> float:
        """That the API needs for TARGET images a second."""
        return (self.loop + self.others) * TARGET / 1000


def _server_process(directory: Path, port: int) -> None:
    """A server whose engine has the simulated device."""
    settings = Settings(
        models=(str(directory),), port=port, max_waiting_images=8 * SLOTS, max_images_per_request=SLOTS,
        client_share=1.0, max_connections=4 * SLOTS, log_level="warning",
    )  # fmt: skip

    def handle(options: EngineOptions, max_waiting_images: int) -> EngineClient:
        return EngineClient(SimulatedOptions(options.directory, slots=SLOTS, log_level="warning"), max_waiting_images)

    logs.configure("console", "warning")
    with listen(settings) as listening:
        asyncio.run(running.run(settings, served_models(settings, handle), listening))


@contextmanager
def served(directory: Path) -> Iterator[Server]:
    """A ready server in a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = multiprocessing.get_context("spawn").Process(target=_server_process, args=(directory, port))
    process.start()
    try:
        yield Server(wait_until_ready(f"http://127.0.0.1:{port}"), process.pid)
    finally:
        process.terminate()
        process.join()


def measure_api(server: Server, size: int, images: int, accept: str) -> ApiResult:
    """Have clients ask for `images` images in requests of `size`, twice the slots at once but at most CLIENTS."""
    assert server.pid is not None
    assert server.engine is not None
    before = _seconds(server.pid, server.engine)
    requests = iter(range(images // size))

    async def client_loop(client: httpx.AsyncClient) -> None:
        for seed in requests:
            answer = await client.post(GENERATIONS, json={"n": size, "seed": seed}, headers={"accept": accept})
            raise_for_error(answer)

    async def clients() -> None:
        async with http_client(server.url) as client:
            await asyncio.gather(*(client_loop(client) for _ in range(min(CLIENTS, 2 * SLOTS // size))))

    asyncio.run(clients())
    used = np.subtract(_seconds(server.pid, server.engine), before) * 1000 / images
    return ApiResult(used[0], used[1] - used[0], used[2])


def _seconds(api: int, engine: int) -> tuple[float, float, float]:
    """Processor seconds of the API's event loop, of all its threads, and of the engine."""
    return processor_seconds(api, api), processor_seconds(api), processor_seconds(engine)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--images", type=int, default=20_000, help="of each measurement")
    images: int = options.parse_args().images
    raise_descriptor_limit()
    console, rows = Console(), []
    with tempfile.TemporaryDirectory() as folder:
        directory = simulated_device.model(Path(folder) / "simulated")
        table = Table(
            "request", "busy", "images/s", "engine ms/image", title=f"engine, {SLOTS} in flight", title_justify="left"
        )
        for size in (1024, 64, 4, 1):
            result = measure_engine(directory, size, max(images, 4 * SLOTS))
            rows.append({"part": "engine", "size": size, **vars(result)})
            numbers = (result.busy, result.images_per_second, result.engine_seconds)
            table.add_row(f"{size} images", *(f"{number:.3g}" for number in numbers))
        console.print(table)
        table = Table(
            "request", "answer", "loop ms/image", "other threads", "engine", f"API cores at {TARGET}/s", title="API"
        )
        with served(directory) as server:
            for size, accept in ((1024, NPY), (64, NPY), (64, JSON), (4, JSON), (1, JSON), (1, PNG)):
                api = measure_api(server, size, images // 4 if size > 1 else images // 16, accept)
                rows.append({"part": "api", "size": size, "accept": accept, **vars(api), "cores": api.cores})
                numbers = (api.loop, api.others, api.engine, api.cores)
                table.add_row(f"{size} images", accept, *(f"{number:.3g}" for number in numbers))
        console.print(table)
    print_json({"benchmark": "busy_device", "rows": rows})


if __name__ == "__main__":
    main()
