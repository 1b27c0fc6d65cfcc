"""What a process frees goes back to the system, whatever small things are still in use."""

import ctypes
import subprocess
import sys

import pytest

PROGRAM = """
import os, sys
from scanline.server.memory import give_back_freed_memory

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


def growth(kind: str) -> int:
    """Bytes that a process keeps which had sixty blocks of a megabyte, and small ones between them."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, kind], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="needs glibc")
def test_large_blocks_are_given_back_although_small_ones_between_them_are_in_use() -> None:
    assert growth("fixed") < 10e6 < growth("as it was")
