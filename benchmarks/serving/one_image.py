"""What one image costs over HTTP beyond painting it: a request on a kept connection beside the offline engine.

    python -m benchmarks.serving.one_image [--requests 40]

Offline and served images alternate, so that whatever else the machine does is in both; the bytes are compared. The
client is http.client, which takes about 0.2 ms a request. "processor ms" are those of the API's process and of its
engine for each image, and of the offline engine: on a busy machine they say more than the latencies.
"""

import argparse
import http.client
import json
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import numpy as np

from benchmarks.serving.client import GENERATIONS, decode
from benchmarks.serving.server import Server, processor_seconds, serve
from scanline.model import zoo
from scanline.model.bench.machine import print_json
from scanline.model.formats.checkpoint import load_model
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.messages import Finished, GenerateRequest
from scanline.model.sampling.offline import loaded_engine, run

WARM = 3  # images of each before the first that counts


class Connection:
    """A kept connection to the server."""

    def __init__(self, server: Server) -> None:
        address = urlsplit(server.url)
        self.connection = http.client.HTTPConnection(address.hostname or "", address.port)

    def paint(self, seed: int) -> bytes:
        """The body of the answer to a request for one image."""
        body = json.dumps({"n": 1, "seed": seed})
        self.connection.request("POST", GENERATIONS, body, {"content-type": "application/json"})
        answer = self.connection.getresponse()
        data = answer.read()
        assert answer.status == 200, data
        return data


def offline(engine: Engine, seed: int) -> np.ndarray:
    """The bytes [N] of the same image."""
    events = [event for tick in run(engine, GenerateRequest(seed, 1, seed)) for event in tick]
    (image,) = (event.image for event in events if isinstance(event, Finished))
    return np.frombuffer(image, np.uint8)


@contextmanager
def timed(seconds: list[float]) -> Iterator[None]:
    began = time.perf_counter()
    yield
    seconds.append(time.perf_counter() - began)


def measure(server: Server, engine: Engine, requests: int) -> dict[str, float]:
    """Medians of latencies, and processor time for each image, in milliseconds."""
    assert server.pid is not None
    assert server.engine is not None
    connection = Connection(server)
    alone: list[float] = []
    served: list[float] = []
    own = 0.0
    processes = {"api": server.pid, "engine": server.engine}
    before: dict[str, float] = {}
    for seed in range(WARM + requests):
        if seed == WARM:
            alone, served, own = [], [], 0.0
            before = {name: processor_seconds(pid) for name, pid in processes.items()}
        began = time.process_time()
        with timed(alone):
            expected = offline(engine, seed)
        own += time.process_time() - began
        with timed(served):
            data = connection.paint(seed)
        image = json.loads(data)["data"][0]
        np.testing.assert_array_equal(decode(image["b64_json"]), expected)
    cost = {name: (processor_seconds(pid) - before[name]) / requests for name, pid in processes.items()}
    found = {"offline": statistics.median(alone), "served": statistics.median(served), **cost, "offline engine": own}
    found["offline engine"] /= requests
    return {name: 1e3 * seconds for name, seconds in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", default=zoo.DEFAULT)
    parser.add_argument("--requests", type=int, default=40)
    options = parser.parse_args()
    model = load_model(zoo.find(options.model))
    with serve(options.model) as server, loaded_engine(model, 1) as engine:
        found = measure(server, engine, options.requests)
    ratio = found["served"] / found["offline"]
    print(f"offline {found['offline']:.1f} ms, over HTTP {found['served']:.1f} ms, {ratio:.2f} times (medians)")
    names = ("offline engine", "engine", "api")
    print("processor ms an image: " + ", ".join(f"{name} {found[name]:.1f}" for name in names))
    print_json("one_image", vars(options), milliseconds=found, ratio=ratio)


if __name__ == "__main__":
    main()
