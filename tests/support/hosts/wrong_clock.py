"""A clock that jumps on one host, by libfaketime in its processes: no namespace has a time of day of its own.

Monotonic clocks stay right, as they do on a machine whose clock is set. libfaketime 0.9.10 then breaks
`clock_nanosleep`, on which Python sleeps; a library before it calls the kernel's.
"""

import subprocess
from functools import cache
from pathlib import Path
from shutil import which

from tests.support.hosts.hosts import MODELS, Host

SLEEP = r"""
#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left) {
    return syscall(SYS_clock_nanosleep, clock, flags, until, left) ? errno : 0;
}
"""
LIBRARY, OFFSET = MODELS / "sleep.so", MODELS / "clock"  # on the host


@cache
def faketime() -> Path | None:
    """libfaketime for programs with threads, and None where it or a compiler is missing."""
    found = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
    return found if which("cc") else None


def environment(host: Host) -> dict[str, str]:
    """Variables for `ray start`, after which `set_clock` sets the clock of all that it starts."""
    subprocess.run(["cc", "-shared", "-fPIC", "-xc", "-", "-o", host.path(LIBRARY)], input=SLEEP, text=True, check=True)
    set_clock(host, 0)
    return {
        "LD_PRELOAD": f"{LIBRARY} {faketime()}",
        "FAKETIME_TIMESTAMP_FILE": str(OFFSET),
        "FAKETIME_CACHE_DURATION": "1",  # seconds
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def set_clock(host: Host, seconds: int) -> None:
    """Set it so much before, or after where positive, this machine's."""
    host.path(OFFSET).write_text(f"{seconds:+}s\n")
