"""Whether a server is as it was: a slot that is stuck, or room in the queue that is not given back, would show."""

import httpx
import numpy as np

from tests.support.patience import wait_for
from tests.support.pictures import painted

SLOTS, WAITING = 2, 6
ROOM = {"slots": SLOTS, "max-waiting-images": WAITING}  # of a server that is looked at so
ALL = {"n": SLOTS + WAITING, "seed": 7}


def assert_unharmed(client: httpx.Client, alone: np.ndarray) -> None:
    """All room is free, all slots paint what is painted of ALL without a server, [n, H, W]."""
    __tracebackhide__ = True

    def answer() -> httpx.Response | None:
        """None while who has just left gives back his room, which takes a tick."""
        response = client.post("/v1/images/generations", json=ALL)
        return response if response.status_code != 429 else None

    np.testing.assert_array_equal(painted(wait_for(answer, "free room").json()), alone)
