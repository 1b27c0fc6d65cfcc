"""scanline serve: options made from the settings, the two start-up lines, the server."""

import asyncio
import logging
import os
import sys
from inspect import Parameter, Signature
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from scanline.server.settings import Settings


def serve(**given: Any) -> None:
    """Serve models over HTTP and websocket. Every option can also be set by a
    variable: SCANLINE_PORT for --port.
    """
    sys.exit(
        asyncio.run(_serve({name: value for name, value in given.items() if value is not None}))
    )


def _parameter(name: str, field: FieldInfo) -> Parameter:
    """Return the option of a setting as a parameter; its default,
    None, leaves the setting as it is.
    """
    default = (
        ", ".join(field.default) if isinstance(field.default, tuple) else str(field.default or "")
    )
    option = typer.Option(_flag(name), help=field.description, show_default=default or "none")
    return Parameter(
        name,
        Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[_type(field.annotation) | None, option],
    )


def _flag(name: str) -> str:
    """Return a setting's option; that of a tuple is given once for each item, so
    it is the singular: --allow-host.
    """
    if isinstance(Settings.model_fields[name].default, tuple):
        name = f"{name.removesuffix('ies')}y" if name.endswith("ies") else name.removesuffix("s")
    return f"--{name.replace('_', '-')}"


def _type(annotation: Any) -> Any:
    """Return the type in which the shell gives a setting, before Settings validates it."""
    if get_origin(annotation) is tuple:
        return list[str]
    kinds = [
        getattr(kind, "__origin__", kind)
        for kind in get_args(annotation) or [annotation]
        if kind is not NoneType
    ]
    return kinds[0] if len(kinds) == 1 and kinds[0] in (bool, int, float, Path) else str


# typer makes the command's options from its signature
serve.__signature__ = Signature([_parameter(*setting) for setting in Settings.model_fields.items()])  # type: ignore[attr-defined]


async def _serve(given: dict[str, Any]) -> int:
    from scanline.server.api.base.api_keys import api_keys
    from scanline.server.environment import check
    from scanline.server.models.registry import served_models
    from scanline.server.process.listening import listen
    from scanline.server.process.running import run
    from scanline.server.process.tls import tls_certificate
    from scanline.server.process.workers import supervisor
    from scanline.server.runtime import logs
    from scanline.server.runtime.memory import give_back_freed_memory
    from scanline.server.runtime.secret_variables import forget

    check(os.environ, given)
    give_back_freed_memory()
    settings = _settings(given)
    forget("SCANLINE_API_KEYS")
    logs.configure(settings.log_format, settings.log_level)
    models = served_models(settings)
    keys = api_keys(settings)
    certificate = tls_certificate(settings)
    with listen(settings) as listening:
        place = (
            f"{listening.url} (API documentation at {listening.url}/docs)"
            if listening.url
            else listening.name
        )
        _announce(settings, f"Serving {', '.join(models.all)} at {place}")
        _announce(settings, _access(0 if keys is None else len(keys)))
        if settings.api_processes > 1:
            return await supervisor.run(settings, models, listening, keys, certificate)
        return await run(settings, models, listening, keys, certificate)


def _announce(settings: Settings, line: str) -> None:
    """Print a start-up line, or log it where the log is JSON, so that every line is."""
    if settings.log_format == "console":
        print(line, file=sys.stderr)
    else:
        logging.getLogger("scanline.server").info(line)


def _access(keys: int) -> str:
    if not keys:
        return "No API key set: anyone who can reach this address can use it."
    return f"API key required on every route except probes, the page and /docs ({keys} key{'s' * (keys > 1)} set)."


def _settings(given: dict[str, Any]) -> Settings:
    """Return Settings with the given options; ValueError names the option whose value is wrong."""
    from pydantic import ValidationError

    try:
        return Settings(**{name: _number(value) for name, value in given.items()})
    except ValidationError as error:
        first = error.errors()[0]
        if not first["loc"]:  # about several settings, which the message names
            raise ValueError(first["msg"].removeprefix("Value error, ")) from None
        name, *branch = first["loc"]
        reason = (
            "must be auto or a whole number from 1"
            if branch
            else first["msg"].removeprefix("Value error, ")
        )
        raise ValueError(f"{_flag(str(name))}: {reason}") from None


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isdigit() else value
