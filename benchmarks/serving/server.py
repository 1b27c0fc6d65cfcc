"""A server to measure: started on a free port, watched from outside through /proc, and asked for its metrics."""

import asyncio
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
from prometheus_client.parser import text_string_to_metric_families

ROOT = Path(__file__).parents[2]
LOAD_TIMEOUT = 600  # seconds
Sample = tuple[str, frozenset[tuple[str, str]]]  # a metric's name and labels


@dataclass(frozen=True)
class Size:
    """What a server holds at one moment."""

    at: float  # time.monotonic()
    engine: int | None  # process id
    api_bytes: int  # resident
    engine_bytes: int
    all_bytes: int  # of the server and all its child processes
    descriptors: int  # open files and sockets of the API process
    threads: int  # of the API process


@dataclass(frozen=True)
class Server:
    """A server that answers at `url`, and its main process."""

    url: str
    pid: int

    @property
    def engine(self) -> int | None:
        """The engine's process id; None between two engines."""
        return next(iter(self._named("scanline-engine")), None)

    @property
    def api_processes(self) -> list[int]:
        """The process ids of those that speak HTTP."""
        return self._named("scanline-api") or [self.pid]

    def _named(self, name: str) -> list[int]:
        return [pid for pid in children(self.pid) if _read(pid, "comm").strip() == name]

    def size(self) -> Size:
        engine, below = self.engine, sum(map(_resident, children(self.pid)))
        api_bytes, engine_bytes = _resident(self.pid), _resident(engine) if engine else 0
        descriptors, threads = (len(os.listdir(f"/proc/{self.pid}/{name}")) for name in ("fd", "task"))
        return Size(time.monotonic(), engine, api_bytes, engine_bytes, api_bytes + below, descriptors, threads)

    @asynccontextmanager
    async def watched(self, seconds: float) -> AsyncIterator[list[Size]]:
        """Give a list that grows by the server's size every so many seconds, and at the end of the context."""

        async def watch() -> None:
            while True:
                sizes.append(self.size())
                await asyncio.sleep(seconds)

        sizes: list[Size] = []
        task = asyncio.create_task(watch())
        await asyncio.sleep(0)
        try:
            yield sizes
        finally:
            task.cancel()
            sizes.append(self.size())

    def processor(self) -> Counter[str]:
        """Return processor seconds of the API and of the engine so far."""
        api = sum(map(processor_seconds, self.api_processes))
        return Counter({"api": api, "engine": processor_seconds(self.engine) if self.engine else 0.0})

    def metrics(self) -> dict[Sample, float]:
        """Return the samples of GET /metrics."""
        text = httpx.get(f"{self.url}/metrics", timeout=60).raise_for_status().text
        families = text_string_to_metric_families(text)
        return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def total(metrics: dict[Sample, float], name: str) -> float:
    """Return the sum of a metric over all its labels."""
    return sum(value for (sample, _), value in metrics.items() if sample == f"scanline_{name}")


@contextmanager
def serve(model: str, *options: str, log: Path | None = None) -> Iterator[Server]:
    """Start a server, and stop it when the context ends."""
    port = free_port()
    command = [sys.executable, "-m", "scanline.server.cli", "serve", "--model", model, "--port", str(port), *options]
    with open(log or os.devnull, "w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=ROOT)
    try:
        yield Server(wait_until_ready(f"http://127.0.0.1:{port}", process), process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def wait_until_ready(url: str, process: subprocess.Popen[bytes] | None = None) -> str:
    """Return `url` once /readyz answers 200; TimeoutError, or RuntimeError if the process exits before."""
    deadline = time.monotonic() + LOAD_TIMEOUT
    while time.monotonic() < deadline:
        try:
            if httpx.get(f"{url}/readyz", timeout=60).status_code == 200:
                return url
        except httpx.TransportError:
            if process is not None and process.poll() is not None:
                raise RuntimeError(f"the server exited with status {process.returncode}") from None
        time.sleep(0.1)
    raise TimeoutError(f"{url} is not ready after {LOAD_TIMEOUT} s")


def children(pid: int) -> list[int]:
    """Return the process ids of all descendants: each thread of a process has children of its own."""
    own = [
        int(child)
        for task in Path(f"/proc/{pid}/task").glob("*")
        for child in _read(pid, f"task/{task.name}/children").split()
    ]
    return own + [grandchild for child in own for grandchild in children(child)]


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process without its children, in steps of 10 ms."""
    fields = _read(pid, "stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def raise_descriptor_limit() -> None:
    """Allow this process as many sockets as the hard limit does."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def quantiles(before: dict[Sample, float], after: dict[Sample, float], name: str, *wanted: float) -> list[float]:
    """Return quantiles of what a histogram counted between two scrapes, linear within a bucket; NaN of nothing."""
    counts: dict[float, float] = {}
    for (sample, labels), value in after.items():
        if sample == f"{name}_bucket":
            bound = float(dict(labels)["le"])
            counts[bound] = counts.get(bound, 0.0) + value - before.get((sample, labels), 0.0)
    bounds = sorted(counts)
    total = counts[bounds[-1]] if bounds else 0.0
    if not total:
        return [float("nan")] * len(wanted)
    shares = [0.0, *(counts[bound] / total for bound in bounds)]
    finite = [0.0, *(min(bound, bounds[-2]) for bound in bounds)]
    return [float(np.interp(share, shares, finite)) for share in wanted]


def _resident(pid: int) -> int:
    """Return the resident bytes of a process; 0 if it has exited."""
    words = _read(pid, "statm").split()
    return int(words[1]) * os.sysconf("SC_PAGE_SIZE") if words else 0


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
