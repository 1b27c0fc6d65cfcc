"""The earliest place where the HTTP message that a parser is reading can end.

httptools parses all that it is given, and calls back for every message in it. Fed up to that place
only, it never begins a message before the one before it was answered. Knows no more of HTTP than
this: a head, and a chunked body, end in an empty line.
"""

import re

EMPTY_LINE = b"\r\n\r\n"
LINE_ENDS = re.compile(rb"[\r\n]+")


class MessageEnds:
    """Of one connection."""

    def __init__(self) -> None:
        self.body_left = 0  # bytes of a body whose length is known
        # the last bytes that were given to the parser, where an empty line may have begun
        self.tail = b""

    def next(self, data: bytes, start: int, in_message: bool, limit: int | None = None) -> int:
        """Return where to stop, at the latest at `limit`: data[start:end] holds at most the end
        of one message, as its last byte."""
        limit = len(data) if limit is None else min(limit, len(data))
        if self.body_left:
            end = min(limit, start + self.body_left)
            self.body_left -= end - start
            return end
        if not in_message and (blank := LINE_ENDS.match(data, start)):  # ignored before a message
            self.tail = b""
            return blank.end()
        # An empty line may have begun in what was given before.
        across = (
            (self.tail + data[start : min(limit, start + 3)]).find(EMPTY_LINE) if self.tail else -1
        )
        if across >= 0:
            end = start + across + len(EMPTY_LINE) - len(self.tail)
        elif (empty_line := data.find(EMPTY_LINE, start, limit)) >= 0:
            end = empty_line + len(EMPTY_LINE)
        else:
            self.tail = (self.tail + data[max(start, limit - 3) : limit])[-3:]
            return limit
        self.tail = b""
        return end
