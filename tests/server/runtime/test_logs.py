"""The log's lines of one kind are bounded by rate, whatever a client sends; those that nobody reads stop nothing."""

import fcntl
import logging
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from scanline.server.runtime import logs
from scanline.server.runtime.logs import LINES, TRACEBACK_LINES, RateLimit
from tests.support.server.running_server import Server


def line(level: int, message: str, *args: object, **extra: object) -> logging.LogRecord:
    record = logging.LogRecord("scanline.server", level, __file__, 1, message, args, extra.pop("exc_info", None))  # type: ignore[arg-type]
    record.__dict__.update(extra)
    return record


def test_lines_of_one_kind_are_dropped_and_counted_beyond_their_rate() -> None:
    limit = RateLimit()
    flood = [limit.filter(line(logging.ERROR, "seven %s", number)) for number in range(10 * int(LINES))]
    assert int(LINES) <= sum(flood) < 2 * LINES, "whatever their values"
    refused = [limit.filter(line(logging.INFO, "request", ended="refused")) for _ in range(10 * int(LINES))]
    assert sum(refused) < 2 * LINES
    assert all(limit.filter(line(logging.INFO, "request", ended="answered")) for _ in range(10 * int(LINES)))

    other = line(logging.ERROR, "eight")
    assert limit.filter(other)
    assert not hasattr(other, "dropped")
    limit.kinds = {kind: (0.0, since, dropped) for kind, (_, since, dropped) in limit.kinds.items()}  # time has passed
    next_one = line(logging.ERROR, "seven %s", 0)
    assert limit.filter(next_one)
    assert next_one.dropped == flood.count(False)  # type: ignore[attr-defined]


def test_a_traceback_counts_as_many_lines() -> None:
    limit, failure = RateLimit(), (ValueError, ValueError("seven"), None)
    passed = [limit.filter(line(logging.ERROR, "failed", exc_info=failure)) for _ in range(int(LINES))]
    assert sum(passed) < 2 * LINES / TRACEBACK_LINES


def reader_that_stops() -> None:
    """Let a thread of this process read its log up to the server's address, and nothing of it afterwards."""
    log, (reading, writing) = os.fdopen(os.dup(2), "w"), os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    os.dup2(writing, 2)

    def read() -> None:
        for line in os.fdopen(reading):
            print(line, file=log, end="", flush=True)
            if "Serving" in line:
                threading.Event().wait()

    threading.Thread(target=read, daemon=True).start()


def test_a_log_that_nobody_reads_stops_neither_answers_nor_sigterm(grey_directory: Path) -> None:
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


def test_lines_beyond_the_bound_are_dropped_and_counted_and_the_others_are_written_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    monkeypatch.setattr(logs, "MAX_WAITING", 10)
    with os.fdopen(reading) as log, os.fdopen(writing, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        writer = logs.LogWriter()
        for number in range(50):  # each fills the pipe, so that one is being written and at most ten wait
            writer.handle(line(logging.INFO, f"{number} ".ljust(5000)))
        assert 39 <= writer.dropped < 50
        kept = 50 - writer.dropped
        assert [int(log.readline()) for _ in range(kept)] == list(range(kept))
        writer.flush()
