"""Logging of a server's processes: one line per event, human-readable or JSON, from all loggers alike.

No line contains an API key: paths are logged as the routes declare them, headers never, tracebacks without variables,
and libraries only from INFO on, because some log headers at DEBUG.
"""

import logging
import sys
from typing import Any, Literal

import structlog

Format = Literal["console", "json"]
Level = Literal["debug", "info", "warning", "error"]


def configure(form: str, level: str) -> None:
    """Let all loggers of this process write to standard error: `form` console or json, `level` debug to error."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,  # request_id, and what else was bound for the current request
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
        renderers += [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)]
    handler = logging.StreamHandler()
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=renderers))
    own = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(handlers=[handler], level=max(logging.INFO, own), force=True)
    logging.getLogger("scanline").setLevel(own)
    logging.getLogger("uvicorn").setLevel(max(logging.WARNING, own))
    logging.captureWarnings(True)
