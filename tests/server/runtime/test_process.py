"""A server's process: its log is bounded, the lag of its event loop is
measured, and freed memory goes back.
"""

import asyncio
import ctypes
import fcntl
import logging
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from scanline.server.runtime import logs
from scanline.server.runtime.logs import LINES, MAX_KINDS, TRACEBACK_LINES, RateLimit
from scanline.server.runtime.loop_lag import PERIOD_SECONDS, LoopLag
from tests.support.server.running_server import Server


async def measured(*holds):
    """A monitor of a loop that is held for some times, in seconds, with pauses between."""
    lag = LoopLag()
    lag.start()
    for hold in holds:
        await asyncio.sleep(2 * PERIOD_SECONDS)
        time.sleep(hold)
    await asyncio.sleep(2 * PERIOD_SECONDS)
    lag.stop()
    return lag


async def test_a_held_loop_is_measured():
    lag = await measured(0.4, 0.1)
    assert lag.recent_max >= 0.4 - PERIOD_SECONDS
    assert lag.seconds.sum >= 0.5 - 2 * PERIOD_SECONDS
    assert (
        1 <= sum(lag.seconds.counts[lag.seconds.bounds.index(0.25) + 1 :]) < sum(lag.seconds.counts)
    )


async def test_a_minute_later_a_lag_is_forgotten(monkeypatch):
    lag = await measured(0.2)
    assert lag.recent_max >= 0.2 - PERIOD_SECONDS
    later = time.monotonic() + 61
    monkeypatch.setattr("scanline.server.runtime.loop_lag.time.monotonic", lambda: later)
    assert lag.recent_max == 0


async def test_long_lags_are_logged_once_in_a_while(caplog):
    await measured(0.7, 0.7)
    warnings = [
        record.getMessage() for record in caplog.records if record.name == "scanline.server"
    ]
    assert len(warnings) == 1
    assert "the event loop was blocked for 0." in warnings[0]


RESIDENT = """
import asyncio, os, sys, time
from scanline.server.runtime.memory import give_back_free_pages, give_back_freed_memory

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
"""

PROGRAM = """
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


def growth(*arguments):
    return int(
        subprocess.run(
            [sys.executable, "-c", *arguments], capture_output=True, text=True, check=True
        ).stdout
    )


@needs_glibc
def test_small_blocks_that_were_freed_between_others_are_given_back_after_a_while():
    assert growth(RESIDENT + SMALL_BLOCKS) < 10e6


@needs_glibc
def test_large_blocks_are_given_back_although_small_ones_between_them_are_in_use():
    assert growth(RESIDENT + PROGRAM, "fixed") < 10e6 < growth(RESIDENT + PROGRAM, "as it was")


def test_garbage_is_collected_rarely_and_not_among_what_a_process_starts_with():
    assert growth(GARBAGE) < 1000


def line(level, message, *args, **extra):
    record = logging.LogRecord(
        "scanline.server", level, __file__, 1, message, args, extra.pop("exc_info", None)
    )
    record.__dict__.update(extra)
    return record


def test_lines_of_one_kind_are_dropped_and_counted_beyond_their_rate():
    limit = RateLimit()
    flood = [
        limit.filter(line(logging.ERROR, "seven %s", number)) for number in range(10 * int(LINES))
    ]
    assert int(LINES) <= sum(flood) < 2 * LINES, "whatever their values"
    refused = [
        limit.filter(line(logging.INFO, "request", ended="refused")) for _ in range(10 * int(LINES))
    ]
    assert sum(refused) < 2 * LINES
    assert all(
        limit.filter(line(logging.INFO, "request", ended="answered"))
        for _ in range(10 * int(LINES))
    )
    other = line(logging.ERROR, "eight")
    assert limit.filter(other)
    assert not hasattr(other, "dropped")
    # time has passed
    limit.kinds = {kind: (0.0, since, dropped) for kind, (_, since, dropped) in limit.kinds.items()}
    next_one = line(logging.ERROR, "seven %s", 0)
    assert limit.filter(next_one)
    assert next_one.dropped == flood.count(False)


def test_so_many_kinds_of_lines_are_remembered_the_newest():
    limit = RateLimit()
    for number in range(MAX_KINDS + 1):
        limit.filter(line(logging.ERROR, f"kind {number}"))
    assert [text for _, text in limit.kinds] == [
        f"kind {number}" for number in range(1, MAX_KINDS + 1)
    ]


def test_a_traceback_counts_as_many_lines():
    limit = RateLimit()
    failure = (ValueError, ValueError("seven"), None)
    passed = [
        limit.filter(line(logging.ERROR, "failed", exc_info=failure)) for _ in range(int(LINES))
    ]
    assert sum(passed) < 2 * LINES / TRACEBACK_LINES


def reader_that_stops():
    """Let a thread of this process read its log up to the server's
    address, and nothing of it afterwards.
    """
    log, (reading, writing) = os.fdopen(os.dup(2), "w"), os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    os.dup2(writing, 2)

    def read():
        for line in os.fdopen(reading):
            print(line, file=log, end="", flush=True)
            if "Serving" in line:
                threading.Event().wait()

    threading.Thread(target=read, daemon=True).start()


def test_a_log_that_nobody_reads_stops_neither_answers_nor_sigterm(grey_directory):
    server = Server(grey_directory, "--slots", "1", prepare=reader_that_stops)
    try:
        server.wait_until_ready()
        with server.client() as client:
            for _ in range(200):
                assert client.get("/nothing").status_code == 404
        server.process.send_signal(signal.SIGTERM)
        assert server.wait_until_exited() == 0
    finally:
        server.process.kill()


def test_lines_beyond_the_bound_are_dropped_and_counted_the_others_in_order(monkeypatch):
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    monkeypatch.setattr(logs, "MAX_WAITING", 10)
    with os.fdopen(reading) as log, os.fdopen(writing, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        writer = logs.LogWriter()
        # each fills the pipe, so that one is being written and at most ten wait
        for number in range(50):
            writer.handle(line(logging.INFO, f"{number} ".ljust(5000)))
        assert 39 <= writer.dropped < 50
        kept = 50 - writer.dropped
        assert [int(log.readline()) for _ in range(kept)] == list(range(kept))
        writer.flush()
