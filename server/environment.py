"""SCANLINE_* variables that are no setting: a misspelt one must not leave a server open, or otherwise than was meant.

Those that Kubernetes sets in every pod beside a service named scanline, or scanline-something, are not ours to judge.
"""

import re
from collections.abc import Container, Mapping
from difflib import get_close_matches

from scanline.server.settings import Settings

PREFIX = "SCANLINE_"
OF_A_SERVICE = re.compile(r"SCANLINE_(\w+_)?(SERVICE_(HOST|PORT)|PORT_\d+_(TCP|UDP|SCTP))\w*")
ADDRESS = re.compile(r"(tcp|udp|sctp)://")


def check(environment: Mapping[str, str], given: Container[str], settings: type[Settings] = Settings) -> None:
    """ValueError with the nearest names for a variable that nobody reads; `given` are the settings that options set."""
    known = [name.upper() for name in settings.model_fields]
    for variable, value in environment.items():
        name = variable.upper()
        if name == "SCANLINE_PORT" and ADDRESS.match(value) and "port" not in given:
            raise ValueError(
                f"{variable} is {value}, as Kubernetes sets it beside a service named scanline: "
                "set it to a number in the pod, or enableServiceLinks to false"
            )
        setting = name.removeprefix(PREFIX)
        if setting in (name, *known) or _of_a_service(name, value):
            continue
        near = get_close_matches(setting, known, n=1)
        hint = f"did you mean {PREFIX}{near[0]}?" if near else f"there are {PREFIX}{', '.join(known)}"
        raise ValueError(f"{variable} is no setting: {hint}")


def _of_a_service(name: str, value: str) -> bool:
    return bool(OF_A_SERVICE.fullmatch(name) or (name.endswith("_PORT") and ADDRESS.match(value)))
