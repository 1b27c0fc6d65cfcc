"""The command line: `scanline COMMAND`. It exits with status 0, or prints one
sentence to stderr and exits with 2.

Importing this package imports nothing: each process that a server
starts imports the console script again.
"""

import gc
import io
import os
import signal
import sys
from contextlib import suppress


def main() -> None:
    """Run the console script; errors in what the user asked for become
    one sentence, without a traceback.
    """
    from scanline.model.base.safe_path import safe_path

    with safe_path():
        _main()


def _main() -> None:
    _open_standard_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        with suppress(OSError):
            # for a terminal without the letters of a class's name
            sys.stdout.reconfigure(errors="backslashreplace")
    from scanline.server.runtime import stderr

    is_server = sys.argv[1:2] == ["serve"]
    stderr.install(sys.argv[2:] if is_server else ())
    try:
        _run()
    except OSError as error:
        reason = error.strerror or str(error)
        _stop(f"{error.filename}: {reason}" if error.filename else reason)
    except (ValueError, ArithmeticError, MemoryError, ImportError) as error:
        _stop(str(error) or type(error).__name__)


def _run() -> None:
    if sys.argv[1:2] == ["serve"] and "--help" not in sys.argv:
        # Until the server handles it. Without a handler Linux does not
        # send it to process 1 of a container.
        signal.signal(signal.SIGTERM, lambda number, frame: os._exit(128 + number))
        # First of all imports the longest: torch, which engines need, in a process of its own.
        from scanline.server.engine.worker.forkserver import warm_up
        from scanline.server.runtime.secret_variables import withhold

        withhold()
        warm_up()
        gc.disable()  # until the server runs (memory.py): imports leave next to no garbage
    from scanline.server.cli.app import app

    app()


def _open_standard_streams() -> None:
    """Open those that are closed, as some supervisors start programs: else the next files and
    sockets would have their descriptors, and get what is meant for a terminal."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            # the lowest free descriptor: this one
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, "w" if descriptor else "r", closefd=False))  # noqa: SIM115


def _stop(reason: str) -> None:
    """Exit with one line, in which a terminal obeys nothing: names in it may be a stranger's."""
    line = "".join(char if char.isprintable() else "?" for char in reason)
    print(f"scanline: {line}", file=sys.stderr)
    sys.exit(2)
