"""The distribution's name, its version, and what to install where an extra is missing.

The instruction lists the extra's own requirements, so that it works from a clone and from a wheel,
whatever an index has under our name. Imports nothing but the standard library.
"""

import shlex
from importlib import metadata

DISTRIBUTION = "scanline-server"  # an index has another project under the name `scanline`


class MissingExtraError(ValueError):
    """A feature needs an extra that is not installed; the message is one sentence for the user."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs the extra {extra}: {install_command(extra)}")


def version() -> str:
    """Return the version of the installed distribution."""
    return metadata.version(DISTRIBUTION)


def install_command(extra: str) -> str:
    """Return the command that installs the packages of an extra."""
    requirements = [line.partition(";") for line in metadata.requires(DISTRIBUTION) or ()]
    packages = [
        package.strip() for package, _, marker in requirements if f'extra == "{extra}"' in marker
    ]
    assert packages, f"there is no extra {extra}"
    return shlex.join(["pip", "install", *packages])
