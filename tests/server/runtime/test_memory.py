"""Freed memory goes back to the system, although small blocks between are still in use."""

import ctypes
import subprocess
import sys

import pytest

PROGRAM = """
import os, sys
from scanline.server.runtime.memory import give_back_freed_memory

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

if sys.argv[1] == "fixed":
    give_back_freed_memory()
large = bytes(30_000_000)
del large
before = resident()
pieces = [(b"a" * 1_000_000, bytearray(5000)) for _ in range(60)]
kept = [small for _, small in pieces]
assert resident() - before > 50e6
del pieces
print(resident() - before)
"""

SMALL_BLOCKS = """
import asyncio, os, time
from scanline.server.runtime.memory import give_back_free_pages, give_back_freed_memory

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

async def main():
    before = resident()
    blocks = [bytearray(2000) for _ in range(40_000)]
    kept = blocks[::100]  # of every 50 pages, one or two are still in use
    del blocks
    assert resident() - before > 50e6
    trimming = asyncio.create_task(give_back_free_pages(0.1))
    end = time.monotonic() + 60
    while resident() - before > 10e6 and time.monotonic() < end:
        await asyncio.sleep(0.1)
    trimming.cancel()
    print(resident() - before)

give_back_freed_memory()
asyncio.run(main())
"""

GARBAGE = """
import gc, weakref
from scanline.server.runtime.memory import COLLECT_AFTER, collect_rarely

class Node:
    def __init__(self):
        self.me = self

imported = [Node() for _ in range(100_000)]
collect_rarely()
assert gc.get_freeze_count() > len(imported)
before = sum(generation["collections"] for generation in gc.get_stats())
garbage = weakref.ref(Node())
kept = [[] for _ in range(COLLECT_AFTER[0] // 2)]
assert sum(generation["collections"] for generation in gc.get_stats()) == before
assert garbage() is not None
kept += [[] for _ in range(COLLECT_AFTER[0])]
assert garbage() is None
print(gc.collect())
"""

needs_glibc = pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="needs glibc")


def growth(*arguments: str) -> int:
    """Bytes that a program keeps, as it prints them."""
    done = subprocess.run([sys.executable, "-c", *arguments], capture_output=True, text=True, check=True)
    return int(done.stdout)


@needs_glibc
def test_small_blocks_that_were_freed_between_others_are_given_back_after_a_while() -> None:
    assert growth(SMALL_BLOCKS) < 10e6


@needs_glibc
def test_large_blocks_are_given_back_although_small_ones_between_them_are_in_use() -> None:
    assert growth(PROGRAM, "fixed") < 10e6 < growth(PROGRAM, "as it was")


def test_garbage_is_collected_rarely_and_not_among_what_a_process_starts_with() -> None:
    assert growth(GARBAGE) < 1000
