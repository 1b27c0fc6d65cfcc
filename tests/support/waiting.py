"""Waiting for a condition, with a deadline."""

import time

PATIENCE = 300  # seconds: the deadline for anything that takes moments on an idle machine


def wait_for(find, what):
    """Call `find` until it returns something true, and return that; `what` names it in the
    failure message. Pauses grow from 10 to 50 ms: a check may be a request, which takes
    processor time from what is waited for."""
    deadline = time.monotonic() + PATIENCE
    pause = 0.01
    while not (found := find()):
        assert time.monotonic() < deadline, f"timed out after {PATIENCE} s waiting for {what}"
        time.sleep(pause)
        pause = min(1.2 * pause, 0.05)
    return found
