"""Logging of a server's processes: one line per event,
human-readable or JSON, from all loggers alike.

No line contains an API key: paths are logged as the routes declare them, headers never, tracebacks
without variables, and libraries only from INFO on, because some log headers at DEBUG.

Warnings, errors and refused connections, which a client can cause as fast as it sends, are bounded
by rate. A thread writes the lines, so that a reader who stands still stops that thread alone.
"""

import logging
import sys
import threading
import time
import warnings
from contextlib import suppress
from io import UnsupportedOperation
from logging.handlers import QueueHandler
from multiprocessing.util import Finalize
from queue import SimpleQueue
from typing import Any, Literal

import structlog

from scanline.server.runtime.stderr import STDERR, write_all

Format = Literal["console", "json"]
Level = Literal["debug", "info", "warning", "error"]

# of one kind: at once, and from then on
LINES = 100.0
LINES_PER_SECOND = 5.0
TRACEBACK_LINES = 10.0  # that a traceback counts as
MAX_KINDS = 1000
MAX_WAITING = 10_000  # lines
FLUSH_SECONDS = 1.0  # that the exit of a process waits for its last lines


class RateLimit(logging.Filter):
    """Drops lines of a kind, their text without values, beyond its rate; the
    next one that passes says how many.
    """

    def __init__(self) -> None:
        super().__init__()
        # lines due, when, and how many were dropped
        self.kinds: dict[tuple[str, str], tuple[float, float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is written. A line of each request is:
        the client's overhead bounds these.
        """
        is_refused = getattr(record, "ended", None) == "refused"
        if not is_refused and (
            record.levelno < logging.WARNING or record.name == "scanline.requests"
        ):
            return True
        kind = (record.name, str(record.msg))
        now = time.monotonic()
        due, since, dropped = self.kinds.pop(kind, (0.0, now, 0))
        due = max(0.0, due - LINES_PER_SECOND * (now - since))
        is_written = due < LINES
        if is_written:
            due += TRACEBACK_LINES if record.exc_info else 1.0
            if dropped:
                record.dropped = dropped
        self.kinds[kind] = due, now, 0 if is_written else dropped + 1
        if len(self.kinds) > MAX_KINDS:
            del self.kinds[next(iter(self.kinds))]
        return is_written


class LogWriter(QueueHandler):
    """Writes lines to standard error from a thread; drops and counts those that come while
    MAX_WAITING wait, and those that cannot be written."""

    def __init__(self) -> None:
        # A SimpleQueue, since a destructor may log while this thread is in `put`.
        self.lines: SimpleQueue[Any] = SimpleQueue()
        super().__init__(self.lines)
        self.dropped = 0
        file = STDERR
        with suppress(UnsupportedOperation):  # sys.stderr is no file where Python's is redirected
            file = sys.stderr.fileno()
        threading.Thread(target=self._write, args=(file,), name="log-writer", daemon=True).start()
        Finalize(None, self.flush, exitpriority=0)  # an engine's process does not run atexit

    def prepare(self, record: logging.LogRecord) -> bytes:
        """Return the line. It is formatted here, where the request that it belongs to is known."""
        return f"{self.format(record)}\n".encode(errors="backslashreplace")

    def enqueue(self, record: Any) -> None:
        """Let the thread write what `prepare` has returned."""
        if self.lines.qsize() < MAX_WAITING:
            self.lines.put(record)
        else:
            self.dropped += 1

    def flush(self) -> None:
        """Wait until all lines so far are written, at most FLUSH_SECONDS."""
        self.lines.put(written := threading.Event())
        written.wait(FLUSH_SECONDS)

    def _write(self, file: int) -> None:
        """Run the thread. It uses no stream of Python, whose lock the
        exit of the process would wait for.
        """
        while True:
            line = self.lines.get()
            if isinstance(line, threading.Event):
                line.set()
                continue
            if not write_all(file, line):
                self.dropped += 1


def dropped_lines() -> int:
    """Return how many lines this process has not written, besides those of RateLimit."""
    return sum(
        handler.dropped for handler in logging.root.handlers if isinstance(handler, LogWriter)
    )


def configure(form: str, level: str) -> None:
    """Let all loggers of this process write to standard error: `form` console
    or json, `level` debug to error.
    """
    shared: list[Any] = [
        # request_id, and what else was bound for the current request
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderers: list[Any] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if form == "json":
        renderers += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        plain = structlog.dev.plain_traceback
        renderers += [
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)
        ]
    handler = LogWriter()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=renderers)
    )
    handler.addFilter(RateLimit())
    lowest = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(handlers=[handler], level=max(logging.INFO, lowest), force=True)
    logging.getLogger("scanline").setLevel(lowest)
    # the last two log each request to the Hugging Face Hub
    for name in ("uvicorn", "httpx", "httpx2"):
        logging.getLogger(name).setLevel(max(logging.WARNING, lowest))
    logging.captureWarnings(True)
    warnings.filterwarnings("ignore", module=r"PIL\.")  # of what clients send
