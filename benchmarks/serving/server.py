"""A real server to measure: started on a free port, watched from outside through /proc, and asked for its metrics."""

import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
from prometheus_client.parser import text_string_to_metric_families

ROOT = Path(__file__).parents[2]
LOAD_TIMEOUT = 600  # seconds
Sample = tuple[str, frozenset[tuple[str, str]]]  # a metric's name and labels


@dataclass(frozen=True)
class Server:
    """A server that answers at `url`; `pid` is set if it was started here."""

    url: str
    pid: int | None = None

    @property
    def engine(self) -> int | None:
        """The engine's process id; None between two engines."""
        assert self.pid is not None
        return next(iter(self._named("scanline-engine")), None)

    @property
    def api_processes(self) -> list[int]:
        """The process ids of those that speak HTTP."""
        assert self.pid is not None
        return self._named("scanline-api") or [self.pid]

    def _named(self, name: str) -> list[int]:
        assert self.pid is not None
        return [pid for pid in children(self.pid) if _read(pid, "comm").strip() == name]

    def resident(self) -> int:
        """Resident bytes of the server and all its child processes."""
        assert self.pid is not None
        return sum(resident(pid) for pid in (self.pid, *children(self.pid)))

    def metrics(self) -> dict[Sample, float]:
        """The samples of GET /metrics."""
        text = httpx.get(f"{self.url}/metrics", timeout=60).raise_for_status().text
        families = text_string_to_metric_families(text)
        return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}

    def total(self, name: str) -> float:
        """The sum of a metric over all its labels."""
        return sum(value for (sample, _), value in self.metrics().items() if sample == f"scanline_{name}")


@contextmanager
def serve(model: str, *options: str, log: Path | None = None) -> Iterator[Server]:
    """A ready server that is stopped when the context ends."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
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


def wait_until_ready(url: str, process: subprocess.Popen[bytes] | None = None) -> str:
    """Returns `url` once /readyz answers 200. Raises TimeoutError, or RuntimeError if the process exits before."""
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


def resident(pid: int) -> int:
    """Resident bytes of a process; 0 if it has exited."""
    words = _read(pid, "statm").split()
    return int(words[1]) * os.sysconf("SC_PAGE_SIZE") if words else 0


def children(pid: int) -> list[int]:
    """Process ids of all descendants."""
    own = [int(child) for child in _read(pid, f"task/{pid}/children").split()]
    return own + [grandchild for child in own for grandchild in children(child)]


def descriptors(pid: int) -> int:
    """Open files and sockets of a process."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def threads(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/task"))


def processor_seconds(pid: int, thread: int | None = None) -> float:
    """Processor time of a process without its children, or of one thread of it; Linux counts in steps of 10 ms."""
    fields = _read(pid, "stat" if thread is None else f"task/{thread}/stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def raise_descriptor_limit() -> None:
    """Allows this process as many sockets as the hard limit does."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def quantiles(before: dict[Sample, float], after: dict[Sample, float], name: str, *wanted: float) -> list[float]:
    """Quantiles of what a histogram counted between two scrapes, linear within a bucket; NaN if it counted nothing."""
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


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
