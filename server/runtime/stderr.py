"""Standard error of a process, in the format of its log: whatever is printed to
it, by Python and by libraries too.

Nothing that is printed there ends a process: its reader may have left, its disk may be full. The
log itself (logs.py) writes past this, by the same function.
"""

import io
import json
import os
import sys
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from types import TracebackType

STDERR = 2
VARIABLE = "SCANLINE_LOG_FORMAT"  # of the setting, which the processes of a server inherit
OPTION = "--log-format"
MAX_BYTES = 65_536  # of a line that has no end


class StandardError(io.RawIOBase):
    """What `sys.stderr` writes to; where the log is JSON, each text that
    ends a line becomes one line of it.
    """

    def __init__(self, is_json: bool) -> None:
        self.is_json = is_json
        self.text = b""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return STDERR

    def isatty(self) -> bool:
        return os.isatty(STDERR)

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.text += bytes(data)
        if not self.is_json or self.text.endswith(b"\n") or len(self.text) > MAX_BYTES:
            text = self.text
            self.text = b""
            write_all(STDERR, _as_json(text) if self.is_json else text)
        return len(data)


def write_all(file: int, data: bytes) -> bool:
    """Write to a descriptor; return whether all of it could be written."""
    try:
        while data:
            data = data[os.write(file, data) :]
    except OSError:
        return False
    return True


def install(arguments: Sequence[str] = ()) -> None:
    """Let `sys.stderr` write so, in the format that the arguments of `scanline serve` or its
    variable ask for; not where it is redirected within Python."""
    form = _format(arguments)
    try:
        if sys.stderr.fileno() != STDERR:
            return
    except io.UnsupportedOperation:
        return
    if form:
        os.environ[VARIABLE] = form
    raw = StandardError(form == "json")
    # A terminal may lack the letters of a class's name.
    sys.stderr = io.TextIOWrapper(
        raw,
        encoding=sys.stderr.encoding,
        errors="backslashreplace",
        write_through=True,
    )
    sys.excepthook = _print_at_once


def _format(arguments: Sequence[str]) -> str:
    for option, following in pairwise([*arguments, ""]):
        name, is_joined, value = option.partition("=")
        if name == OPTION:
            return value if is_joined else following
    return os.environ.get(VARIABLE, "")


def _print_at_once(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    sys.stderr.write("".join(traceback.format_exception(kind, error, trace)))


def _as_json(text: bytes) -> bytes:
    event = text.decode(errors="backslashreplace").strip("\n")
    if not event.strip():
        return b""
    time = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    line = {"event": event, "level": "error", "logger": "stderr", "timestamp": time}
    return json.dumps(line, ensure_ascii=False).encode() + b"\n"
