"""The command line: `scanline COMMAND`. It exits with status 0, or prints one sentence to stderr and exits with 2.

Importing this package imports nothing: each process that a server starts imports the console script again.
"""

import gc
import sys


def main() -> None:
    """Run the console script; errors in what the user asked for become one sentence, without a traceback."""
    if sys.argv[1:2] == ["serve"] and "--help" not in sys.argv:
        # First of all imports the longest: torch, which engines need, in a process of its own.
        from scanline.server.engine.worker.forkserver import warm_up

        warm_up()
        gc.disable()  # until the server runs (memory.py): imports leave next to no garbage
    from scanline.server.cli.app import app

    try:
        app()
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        _stop(reason)
    except (ValueError, ArithmeticError) as error:
        _stop(str(error))


def _stop(reason: str) -> None:
    print(f"scanline: {reason}", file=sys.stderr)
    sys.exit(2)
