"""Assertion that a server is as it was before: a leaked slot, or
leaked room in its queue, fails it.
"""

import numpy as np

from tests.support.pictures import painted
from tests.support.waiting import wait_for

SLOTS = 2
WAITING = 6
# options of a server that can be checked
ROOM = {"slots": SLOTS, "max-waiting-images": WAITING, "client-share": 1}
FULL_REQUEST = {"n": SLOTS + WAITING, "seed": 7}


def assert_server_healthy(client, expected):
    """Fails unless all room is free and all slots paint what
    FULL_REQUEST paints offline, [n, H, W].
    """
    __tracebackhide__ = True

    def answer():
        """None while the room of a client that has just disconnected is
        not free yet, which takes a tick.
        """
        response = client.post("/v1/images/generations", json=FULL_REQUEST)
        return response if response.status_code != 429 else None

    np.testing.assert_array_equal(painted(wait_for(answer, "free room").json()), expected)
