"""The event loop's time is charged to the request or message that it was
spent for, whatever that is answered.
"""

import asyncio
from time import thread_time

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response

from scanline.model.tasks.paint import PaintTask
from scanline.server.api.base.budgets import Budgets
from scanline.server.api.base.loop_time import FREE_SECONDS, LoopTime, current, measured
from scanline.server.api.base.rate_limit import BYTES_PER_UNIT, UNIT_SECONDS
from scanline.server.api.middleware.overhead import ClientOverhead, OverheadMiddleware
from scanline.server.api.routes import websocket, websocket_job
from scanline.server.runtime.lifecycle import Lifecycle
from scanline.server.settings import Settings
from tests.support.server.routes import GENERATIONS
from tests.support.server.websocket_client import connected

SECONDS = 0.1  # of the loop, far beyond what is free
UNITS = (SECONDS - FREE_SECONDS) / UNIT_SECONDS
UNUSED = 50.0  # units: what the machinery around takes at most


def compute(seconds=SECONDS):
    """Take so much processor time of this thread."""
    end = thread_time() + seconds
    while thread_time() < end:
        pass


async def work():
    compute(SECONDS / 2)
    await asyncio.sleep(0)
    compute(SECONDS / 2)
    return "done"


async def wait():
    await asyncio.to_thread(compute)
    await asyncio.sleep(0.001)
    return "done"


async def work_for_images():
    with current().paused():
        compute()
        await asyncio.sleep(0)
        compute()
    compute(SECONDS / 2)
    current().images += int(SECONDS / FREE_SECONDS)
    return "done"


async def charged(work, size=0):
    charges = []
    assert await measured(work(), LoopTime(charges.append, size)) == "done"
    return sum(charges)


@pytest.mark.parametrize(
    ("task", "size", "units"),
    [
        (work, 0, UNITS),
        (work, 200 * BYTES_PER_UNIT, UNITS - 200),
        (work, 500 * BYTES_PER_UNIT, 0),
        (wait, 0, 0),
        (work_for_images, 0, 0),
    ],
)
def test_the_time_between_suspensions_is_charged_but_for_what_is_free(task, size, units):
    assert asyncio.run(charged(task, size)) == pytest.approx(units, abs=UNUSED)


def test_it_is_charged_while_it_lasts_and_ends_as_without_it():
    charges = []

    async def act():
        ends = []

        async def endless():
            compute()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ends.append("cancelled")
                raise

        async def wrong():
            await asyncio.sleep(0)
            raise KeyError

        task = asyncio.create_task(measured(endless(), LoopTime(charges.append)))
        await asyncio.sleep(0)
        assert sum(charges) >= UNITS
        task.cancel()
        ends += [type(each).__name__ for each in await asyncio.gather(task, return_exceptions=True)]
        with pytest.raises(KeyError):
            await measured(wrong(), LoopTime(charges.append))
        return ends

    assert asyncio.run(act()) == ["cancelled", "CancelledError"]


@pytest.mark.parametrize("path", ["/", GENERATIONS, "/nothing"])
@pytest.mark.parametrize("status", [200, 400])
def test_a_request_pays_whatever_its_path_and_its_status(path, status):
    async def app(scope, receive, send):
        compute()
        await Response("", status)(scope, receive, send)

    async def send(message):
        pass

    async def units():
        budgets = Budgets(Settings(max_overhead_per_second=1000))
        scope = {
            "type": "http",
            "method": "GET",
            "path": path,
            "headers": [],
            "client": ("10.0.0.1", 1),
        }
        await OverheadMiddleware(app, budgets, Lifecycle())(scope, Request(scope).receive, send)
        return budgets.overhead.accounts["10.0.0.1"].units

    assert asyncio.run(units()) >= UNITS


@pytest.fixture
def charges(monkeypatch):
    """The units of a server in this process."""
    charges = []
    monkeypatch.setattr(ClientOverhead, "charge", lambda self, units: charges.append(units))
    return charges


SLOW = {  # label: what is made slow
    "a message": (websocket, "parse_job"),
    "a job": (websocket_job, "paint_task"),
}


@pytest.mark.parametrize("label", SLOW)
def test_a_message_and_a_job_of_a_websocket_pay(label, in_process_server, charges, monkeypatch):
    owner, name = SLOW[label]
    call = getattr(owner, name)

    def slow(*arguments):
        compute()
        return call(*arguments)

    monkeypatch.setattr(owner, name, slow)
    with connected(in_process_server[0]) as socket:
        for job in range(2):
            assert socket.paint(id=job).last == "done"
            assert sum(charges) >= (UNITS - FREE_SECONDS / UNIT_SECONDS) * (job + 1)


def test_what_the_engine_sends_costs_its_client_nothing(in_process_server, charges, monkeypatch):
    def slow(_):
        compute()
        return False

    monkeypatch.setattr(PaintTask, "has_work", property(slow))
    assert (
        httpx.post(in_process_server[0] + GENERATIONS, json={"n": 100}, timeout=60).status_code
        == 200
    )
    assert sum(charges) == 0
