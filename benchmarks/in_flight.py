"""How a server holds many images at once: one request for N images, all in flight together.

    python benchmarks/in_flight.py --images 1000 [--model MODEL]

Starts a real server, checks first that the images of a small request are those of the large one byte for byte,
then tells seconds, images/s and the memory of the whole server (API and engine, resident, as Linux counts it)
before, at its peak while the images are painted, and after.
"""

import argparse
import asyncio
import io
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import numpy as np
from rich.console import Console

from scanline.model import zoo
from scanline.model.bench.machine import print_json

SEED = 1
CHECKED = 8


def resident(pid: int) -> int:
    """Resident bytes of a process and all its children."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return pages * os.sysconf("SC_PAGE_SIZE") + sum(resident(int(child)) for child in children)


async def paint(client: httpx.AsyncClient, images: int) -> np.ndarray:
    answer = await client.post(
        "/v1/images/generations", json={"n": images, "seed": SEED}, headers={"accept": "application/x-npy"}
    )
    answer.raise_for_status()
    array: np.ndarray = np.load(io.BytesIO(answer.content))
    return array


async def measure(url: str, pid: int, images: int) -> dict[str, float]:
    async with httpx.AsyncClient(base_url=url, timeout=None) as client:
        while True:
            try:
                if (await client.get("/readyz")).status_code == 200:
                    break
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.1)
        few = await paint(client, CHECKED)
        before, peak, began = resident(pid), 0, time.perf_counter()
        job = asyncio.create_task(paint(client, images))
        while not job.done():
            await asyncio.wait({job}, timeout=0.2)
            peak = max(peak, resident(pid))
        seconds = time.perf_counter() - began
        assert np.array_equal(few, job.result()[:CHECKED]), "company changed an image"
        return {
            "images": images,
            "seconds": seconds,
            "images_per_second": images / seconds,
            "bytes_before": before,
            "bytes_peak": peak,
            "bytes_after": resident(pid),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", default=zoo.DEFAULT)
    parser.add_argument("--images", type=int, default=1000)
    options = parser.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "scanline.server.cli", "serve", "--model", options.model, "--port", str(port)]
    limits = ["--slots", str(options.images), "--max-images-per-request", str(options.images)]
    server = subprocess.Popen([*command, *limits], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        result = asyncio.run(measure(f"http://127.0.0.1:{port}", server.pid, options.images))
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
    megabytes = {name: f"{value / 1e6:.0f} MB" for name, value in result.items() if name.startswith("bytes")}
    Console().print(f"{options.images} images in flight: {result['seconds']:.1f} s, ", end="")
    Console().print(f"{result['images_per_second']:.1f} images/s; memory {megabytes}")
    print_json("in_flight", {"model": options.model}, **result)


if __name__ == "__main__":
    main()
