"""The log's lines of one kind are bounded by rate, whatever a client sends."""

import logging

from scanline.server.runtime.logs import LINES, TRACEBACK_LINES, RateLimit


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
