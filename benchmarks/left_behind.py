"""What a server may not leave behind once its users are gone: work, descriptors, threads, memory."""

import asyncio
import time
from dataclasses import dataclass

import numpy as np
from serving import Server, descriptors, resident, threads

WARM_SHARE = 0.2  # of the time; memory is compared from then on
GROWTH = 0.05, 16e6  # share of its memory and bytes that a process may differ by: one or the other
LOADING_SECONDS = 30.0  # of an engine's life, in which its memory may grow
EMPTY = ("num_jobs", "num_images_reserved", "num_requests_running", "num_requests_waiting", "num_images_waiting")


@dataclass(frozen=True)
class Size:
    """What the server holds at a moment."""

    at: float  # seconds since the soak began
    engine: int | None  # its process id
    api_bytes: int
    engine_bytes: int
    descriptors: int  # of the API's process
    threads: int


def size_of(server: Server, began: float) -> Size:
    """Now; `began` is when the soak did, by time.monotonic."""
    assert server.pid is not None
    api, engine = server.pid, server.engine
    bytes_of_engine = resident(engine) if engine else 0
    at = time.monotonic() - began
    return Size(at, engine, resident(api), bytes_of_engine, descriptors(api), threads(api))


async def settled(server: Server, seconds: float = 120) -> dict[str, float]:
    """What the server's own numbers say once nobody asks for anything, or after so many seconds."""
    give_up = time.monotonic() + seconds
    while True:
        metrics = await asyncio.to_thread(server.metrics)
        left = {name: sum(v for (n, _), v in metrics.items() if n == f"scanline_{name}") for name in EMPTY}
        left["websocket_connections"] = metrics["scanline_websocket_connections", frozenset()]
        if not any(left.values()) or time.monotonic() > give_up:
            return left
        await asyncio.sleep(0.5)


def left_behind(before: Size, sizes: list[Size], after: Size, left: dict[str, float]) -> list[str]:
    """A sentence for each thing that is more than it was; `sizes` are those on the way."""
    found = [f"{name} is {value:g} and nobody asks for anything" for name, value in left.items() if value]
    if after.descriptors > before.descriptors:
        found.append(f"descriptors were {before.descriptors} and are {after.descriptors}")
    warm = [size for size in sizes if size.at > WARM_SHARE * sizes[-1].at]
    early, late = _ends([size.threads for size in warm])
    if late > early:
        found.append(f"threads were {early:g} and are {late:g}")
    engines: dict[int, list[Size]] = {}
    for size in sizes:
        if size.engine:
            engines.setdefault(size.engine, []).append(size)
    loaded = {
        f"engine {pid}": [size.engine_bytes for size in lives if size.at - lives[0].at > LOADING_SECONDS]
        for pid, lives in engines.items()
    }
    for who, held in {"the API": [size.api_bytes for size in warm], **loaded}.items():
        early, late = _ends(held)
        if late - early > max(GROWTH[0] * early, GROWTH[1]):
            found.append(f"{who} grew from {early / 1e6:.0f} to {late / 1e6:.0f} MB")
    return found


def _ends(sizes: list[int]) -> tuple[float, float]:
    """The median of the first and of the last quarter; 0 where there is nothing."""
    sizes = sizes or [0]
    quarter = max(1, len(sizes) // 4)
    return float(np.median(sizes[:quarter])), float(np.median(sizes[-quarter:]))
