"""python confined.py FAMILIES CALLS COMMAND...: run a command with these
system calls and address families alone.

As systemd's SystemCallFilter= with SystemCallErrorNumber=EPERM, and
RestrictAddressFamilies=; by libseccomp.
"""

import ctypes
import os
import socket
import sys

EPERM = 1
ALLOW = 0x7FFF0000
ERRNO = 0x00050000
EQUAL = 4  # SCMP_CMP_EQ


class Comparison(ctypes.Structure):
    """struct scmp_arg_cmp: of one argument of a call."""

    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("value", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


def confine(families, calls):
    """Let this process, and all that it starts, have EPERM for all other calls."""
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    rules = ctypes.c_void_p(library.seccomp_init(ERRNO | EPERM))
    for call in calls:
        number = library.seccomp_syscall_resolve_name(call.encode())
        if call != "socket" and number >= 0:  # this architecture has it
            assert library.seccomp_rule_add(rules, ALLOW, number, 0) == 0, call
    number = library.seccomp_syscall_resolve_name(b"socket")
    for family in families:
        comparison = Comparison(0, EQUAL, getattr(socket, family), 0)
        assert library.seccomp_rule_add(rules, ALLOW, number, 1, comparison) == 0, family
    assert library.seccomp_load(rules) == 0


if __name__ == "__main__":
    confine(sys.argv[1].split(), sys.argv[2].split())
    os.execvp(sys.argv[3], sys.argv[3:])
