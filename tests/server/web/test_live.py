"""Complete while one draws, in a real browser: four completions after
each stroke, and one job at a time.
"""

import json
import signal
from collections import defaultdict
from os import kill

import httpx
import numpy as np
from playwright.sync_api import WebSocket, expect

from tests.server.web.test_complete import SEED, completed, stroke
from tests.support.page.visitor import Visitor
from tests.support.server.running_server import serve
from tests.support.waiting import wait_for

# CELL: canvas pixels for one of the image
SLOTS = 4
CELL = 10
BUSY = "Too many images are waiting; try again in a moment."


class Jobs:
    """The messages of a page's websocket: how many of each type, and the most jobs at a time."""

    def __init__(self, visitor: Visitor) -> None:
        self.page = visitor.page
        self.count = defaultdict(int)
        self.running = self.most = 0
        self.page.on("websocket", self._listen)

    def _listen(self, socket: WebSocket) -> None:
        socket.on("framesent", self._add)
        socket.on("framereceived", self._add)

    def _add(self, text: str | bytes) -> None:
        kind = json.loads(text)["type"] if isinstance(text, str) else "frame"
        self.count[kind] += 1
        self.running += (kind in ("complete", "generate")) - (kind in ("done", "error"))
        self.most = max(self.most, self.running)

    def wait_for(self, kind: str, count: int) -> None:
        def is_there():
            self.page.evaluate("0")  # so that events arrive
            return self.count[kind] >= count

        wait_for(is_there, f"{count} messages of type {kind}")


def wait_for_completions(
    visitor: Visitor,
    client: httpx.Client,
    least: float = 1,
    *,
    colour: bool = False,
    **fields: object,
) -> None:
    """Waits until the page shows the API's completions of what is drawn, up to rounding."""
    drawn = visitor.pixels("#drawing")[
        CELL // 2 :: CELL, CELL // 2 :: CELL, : (3 if colour else 1)
    ].copy()
    rows = int(visitor.see("#rows").input_value())
    drawn[rows:] = 0  # hidden
    expected = completed(client, drawn if colour else drawn[..., 0], n=4, keep_rows=rows, **fields)
    tiles = visitor.see("#live-row canvas")

    def equal():
        shown = np.array([visitor.pixels(tiles.nth(index)) for index in range(4)])
        return (shown[..., :3] == expected.reshape(*shown.shape[:3], -1)).mean()

    wait_for(lambda: equal() >= least, "completions of the drawing")


def test_completions_follow_each_stroke_one_job_at_a_time_and_wait_for_a_busy_server(
    visit, grey_directory
):
    room = f"--slots={SLOTS}", f"--max-waiting-images={SLOTS}", "--client-share=1"
    with serve(grey_directory, *room) as server, server.client() as client:
        visitor = visit("about:blank")
        other = visit("about:blank")
        jobs = Jobs(visitor)
        others = Jobs(other)
        visitor.page.goto(f"{server.url}/#complete")
        visitor.expect_ready()
        visitor.unfold()
        visitor.fill("#complete-seed", str(SEED))

        stroke(visitor, (0.3, 0.2), (0.7, 0.2))
        wait_for_completions(visitor, client)
        visitor.see("#drawing").focus()
        for key in ("Space", "ArrowDown", "Space"):
            visitor.press(key)
        wait_for_completions(visitor, client)

        # A stroke cancels the job of the one before, which cannot end by itself.
        before = jobs.count["complete"]
        kill(server.engine, signal.SIGSTOP)
        stroke(visitor, (0.2, 0.1), (0.2, 0.3))
        jobs.wait_for("complete", before + 1)
        visitor.page.mouse.down()
        jobs.wait_for("cancel", 1)

        # Another visitor takes all the room; the job is sent again,
        # and accepted once he has his images.
        other.page.goto(f"{server.url}/?seed=3&n={2 * SLOTS}")
        others.wait_for("started", 1)
        visitor.page.mouse.up()
        visitor.expect_text("#live-status", BUSY)
        kill(server.engine, signal.SIGCONT)
        other.expect_done(2 * SLOTS)
        wait_for_completions(visitor, client)
        assert jobs.most == 1

        # A completion is opened; one that is not wanted is not painted.
        visitor.see("#live-row button").nth(2).click()
        visitor.expect_text("#viewer-title", "Completion 3")
        visitor.click("#viewer-close")
        visitor.click("#clear")
        expect(visitor.see("#live-row button").first).to_be_disabled()
