"""Process that runs parts, each under a limit of time, so that none ends the run: neither an error
of the device, after which nothing in its process can be trusted, nor a kernel that never ends.

One process runs part after part; after a failure the next part gets a new one.
"""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection

import torch

from benchmarks.gpu.goals import chosen
from benchmarks.gpu.parts import Part
from benchmarks.gpu.results import Finding, ResultsFile
from benchmarks.gpu.setup import Sizes
from scanline.kernels.gpu import summary

SLACK = 3.0  # times its expected seconds that a part may take
MIN_PART = 60.0  # seconds that any part may take: an unforeseen kernel is compiled
ENDING = 10.0  # seconds that a process without a part may take to end
STARTING = 300.0  # seconds that a process may take to import everything
METHOD = "spawn"  # a forked process cannot use CUDA
MIN_DRY = 600.0  # in a dry run, which is for tests on machines of any speed
Show = Callable[[str], None]


def run_parts(
    parts: Sequence[Part],
    sizes: Sizes,
    results: ResultsFile,
    seconds: float,
    least: float,
    show: Show = print,
) -> None:
    """Run parts in their order for so many seconds; those with no time left are skipped. Each gets
    the options that `goals` has found to be the fastest.

    A part may take `least` seconds or SLACK times what is expected, whichever is more, and what is
    left of all.
    """
    end = time.monotonic() + seconds
    worker: Worker | None = None
    try:
        for part in parts:
            left = end - time.monotonic()
            if part.seconds > left:
                left = max(0, left)
                reason = f"needs about {part.seconds} s, and {left:.0f} s of the budget are left"
                results.skip(part.name, reason)
                show(f"{part.name}: skipped, {reason}")
                continue
            show(f"{part.name}: {part.what}")
            worker = worker or Worker(sizes.dry)
            fastest = chosen(results.findings("goals"), sizes)
            results.begin(part.name)
            began = time.monotonic()

            def record(finding: Finding, part: Part = part) -> None:
                results.add(part.name, finding)
                show(f"    {finding}")

            limit = min(left, max(least, SLACK * part.seconds))
            failure = worker.run(part, replace(sizes, fastest=fastest), limit, record)
            results.end(part.name, time.monotonic() - began, failure)
            if failure is not None:
                show(f"    failed: {failure}")
                worker.close()
                worker = None
    finally:
        if worker is not None:
            worker.close()


class Worker:
    """A process that runs parts, one after the other."""

    def __init__(self, dry: bool) -> None:
        context = multiprocessing.get_context(METHOD)
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, dry))
        self.process.start()
        assert self.process.pid
        self.pid = self.process.pid
        theirs.close()
        self.idle = False  # whether it waits for a part

    def run(
        self, part: Part, sizes: Sizes, limit: float, record: Callable[[Finding], None]
    ) -> str | None:
        """Run a part and pass on its findings; return why it failed, None where it did not."""
        try:
            if not self.idle and not self.connection.poll(STARTING):
                return f"its process did not start within {STARTING:.0f} s"
            self.connection.send((part, sizes))
            if not self.idle:
                self.connection.recv()
            self.idle = False
            end = time.monotonic() + limit
            while self.connection.poll(max(0.0, end - time.monotonic())):
                message = self.connection.recv()
                if not isinstance(message, Finding):
                    self.idle = True
                    return message
                record(message)
        except (EOFError, OSError):
            self.process.join()
            return f"its process ended with exit status {self.process.exitcode}"
        return f"did not end within {limit:.0f} s"

    def close(self) -> None:
        """End the process, whatever it does."""
        self.connection.close()
        if self.idle:
            self.process.join(ENDING)
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        with suppress(ProcessLookupError):  # of what it has started: tests, compilers
            os.killpg(self.pid, signal.SIGKILL)


def _work(connection: Connection, dry: bool) -> None:
    """Report that this process is ready, and run the parts that come in, until the other side
    closes."""
    os.setsid()  # so that what it starts can be ended with it
    if dry:
        torch.set_num_threads(1)
    connection.send("ready")
    while True:
        try:
            part, sizes = connection.recv()
        except EOFError:
            return
        failure = None
        try:
            for finding in part.run(sizes):
                connection.send(finding)
            if not dry:
                torch.cuda.synchronize()
                torch.cuda.empty_cache()
        except Exception as error:
            failure = summary(error) + _where(error)
        with suppress(BrokenPipeError):  # the part took too long, and its pipe is closed
            connection.send(failure)


def _where(error: BaseException) -> str:
    """Return the file and line of an error's origin."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"
