"""Measures of a running server: the lag of its event loop, and its peak memory."""

from pathlib import Path

from tests.support.server.metrics_reader import Metrics

BOUND = "0.25"  # seconds
# other processes hold a busy machine now and then, a payload that holds the loop does so each time
ATTEMPTS = 20


def assert_loop_is_free(client, act):
    """Fails if the event loop was late by more than BOUND at every attempt of `act`."""
    __tracebackhide__ = True
    for _ in range(ATTEMPTS):
        before = _late(client)
        act()
        if _late(client) == before:
            return
    raise AssertionError(f"the event loop was held for more than {BOUND} seconds {ATTEMPTS} times")


def _late(client):
    """How often the loop has been late by more than BOUND."""
    metrics = Metrics(client)
    name = "event_loop_lag_seconds"
    return metrics.of(f"{name}_count") - metrics.of(f"{name}_bucket", le=BOUND)


def reset_peak(server):
    """Make the peak of the server's resident bytes what is resident now, and return that."""
    Path(f"/proc/{server.process.pid}/clear_refs").write_text("5")
    return peak(server)


def peak(server):
    """The most bytes that were resident in the server's process since `reset_peak`."""
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) * 1024
