"""Check of SCANLINE_* variables: a misspelt one is an error, and must not
leave a server without its API key.

Variables that Kubernetes sets in every pod next to a service named scanline,
or scanline-something, are accepted.
"""

import re
from collections.abc import Container, Mapping
from difflib import get_close_matches

from scanline.server.settings import Settings

PREFIX = "SCANLINE_"
SERVICE_VARIABLE = re.compile(r"SCANLINE_(\w+_)?(SERVICE_(HOST|PORT)|PORT_\d+_(TCP|UDP|SCTP))\w*")
ADDRESS = re.compile(r"(tcp|udp|sctp)://")


def check(
    environment: Mapping[str, str], given: Container[str], settings: type[Settings] = Settings
) -> None:
    """Raise ValueError for a variable that is not a setting; `given`
    are the settings that options set.
    """
    known = [name.upper() for name in settings.model_fields]
    for variable, value in environment.items():
        name = variable.upper()
        if name == "SCANLINE_PORT" and ADDRESS.match(value) and "port" not in given:
            raise ValueError(
                f"{variable} is {value}, as Kubernetes sets it next to a service named scanline: "
                "set it to a number in the pod, or enableServiceLinks to false"
            )
        setting = name.removeprefix(PREFIX)
        if setting in (name, *known) or _is_service_variable(name, value):
            continue
        similar = get_close_matches(setting, known, n=1)
        hint = (
            f"did you mean {PREFIX}{similar[0]}?"
            if similar
            else f"the settings are {PREFIX}{', '.join(known)}"
        )
        raise ValueError(f"{variable} is not a setting: {hint}")


def _is_service_variable(name: str, value: str) -> bool:
    return bool(
        SERVICE_VARIABLE.fullmatch(name) or (name.endswith("_PORT") and ADDRESS.match(value))
    )
