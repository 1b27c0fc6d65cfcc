"""Work in tiles of a fixed number of rows, so that an image's arithmetic never depends on its company.

A matrix product of another shape may round differently, and one bit can flip a pixel. So the rows of a
batch are computed TILE at a time, always TILE, idle rows included; on a CPU each tile runs in one thread
with one-threaded operations, and tiles side by side.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import torch

TILE = {"cpu": 32, "cuda": 1024}  # rows; a multiple of 32 keeps every elementwise loop in whole vectors


class Tiles:
    """Runs a function over tiles, side by side on a CPU's cores, one after the other on a GPU."""

    def __init__(self, device: torch.device, threads: int | None = None) -> None:
        self.rows = TILE[device.type]
        self.pool: ThreadPoolExecutor | None = None
        if device.type == "cpu":
            ours = torch.get_num_threads()
            count = threads or ours
            self.pool = ThreadPoolExecutor(count, "tile", _one_threaded, (Barrier(count),))
            for started in [self.pool.submit(torch.get_num_threads) for _ in range(count)]:
                assert started.result() == 1
            torch.set_num_threads(ours)  # set_num_threads also moves the default of threads to come

    def run(self, function: Callable[[int], None], tiles: Iterable[int]) -> None:
        """Calls function(tile) for each tile; returns when all are done, raises what one raised."""
        if self.pool is None:
            for tile in tiles:
                function(tile)
        else:
            for future in [self.pool.submit(function, tile) for tile in tiles]:
                future.result()

    def close(self) -> None:
        if self.pool is not None:
            self.pool.shutdown()


def _one_threaded(barrier: Barrier) -> None:
    torch.set_num_threads(1)
    assert torch.get_num_threads() == 1  # and settled by asking: at its first use a thread takes the last one's number
    barrier.wait()
