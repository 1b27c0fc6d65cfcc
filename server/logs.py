"""How the processes of a server write their logs: one line a happening, for people or as JSON, all loggers alike.

A line tells no key: paths stand in it as the routes have them, headers never, tracebacks without variables, and
libraries are not heard below INFO, where some of them tell headers.
"""

import logging
import sys
from typing import Any, Literal

import structlog

Format = Literal["console", "json"]
Level = Literal["debug", "info", "warning", "error"]


def configure(form: str, level: str) -> None:
    """All loggers of this process write to standard error, from `level` (debug to error) on, as console or json."""
    first: list[Any] = [
        structlog.contextvars.merge_contextvars,  # request_id, and what else is known of the request in work
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[Any] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if form == "json":
        last += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        plain = structlog.dev.plain_traceback
        last += [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)]
    handler = logging.StreamHandler()
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=first, processors=last))
    lowest = level.upper()
    logging.basicConfig(handlers=[handler], level=max(logging.INFO, logging.getLevelNamesMapping()[lowest]), force=True)
    logging.getLogger("scanline").setLevel(lowest)
    logging.getLogger("uvicorn").setLevel(max(logging.WARNING, logging.getLevelNamesMapping()[lowest]))
    logging.captureWarnings(True)
