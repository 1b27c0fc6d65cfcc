"""Tiles: every thread computes with one thread, and the caller keeps its own."""

from threading import Barrier

import torch

from scanline.model.backends.tiles import Tiles


def test_every_thread_of_the_pool_computes_one_threaded() -> None:
    tiles, seen, together = Tiles(torch.device("cpu"), threads=2), [], Barrier(2)

    def look(_: int) -> None:
        together.wait(timeout=60)  # so that both threads of the pool must come
        torch.ones(1 << 16).exp()
        seen.append(torch.get_num_threads())

    tiles.run(look, [0, 1])
    tiles.close()

    assert seen == [1, 1]


def test_the_caller_keeps_its_number_of_threads() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        Tiles(torch.device("cpu"), threads=2).close()

        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
