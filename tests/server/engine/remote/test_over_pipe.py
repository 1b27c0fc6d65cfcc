"""Two ends of the pipe between an API process and its main process, on one event loop."""

import asyncio
from contextlib import asynccontextmanager
from multiprocessing import Pipe

import pytest

from scanline.model.sampling.base.messages import Cancel, Failed, Finished, GenerateRequest
from scanline.server.engine.job import NOT_TAKEN_IN, EngineFailedError
from scanline.server.engine.local.engine_client import STOPPED
from scanline.server.engine.remote.over_pipe import (
    ApiEnd,
    CallError,
    MainEnd,
)
from tests.support.engine.engines import with_deadline
from tests.support.engine.jobs import PaintJob


class BreaksError(Exception):
    """What no code catches by name."""


async def breaks(argument):
    raise BreaksError(argument)


async def echoes(argument):
    return argument


METHODS = {"breaks": breaks, "echoes": echoes}


def no_digests(statuses):
    if statuses:
        raise BreaksError(statuses)
    return frozenset()


def broken_registry(model, digest):
    raise BreaksError(model)


@asynccontextmanager
async def both_ends(
    find_engine=broken_registry,
):
    one, other = Pipe()
    methods = METHODS
    api = ApiEnd(one, no_digests, methods)
    main = MainEnd(other, find_engine, methods)
    try:
        yield api, main
    finally:
        for end in (api, main):
            end.pipe.outbox.put(None)
        one.close()
        other.close()


def two_jobs(api):
    jobs = [PaintJob(GenerateRequest(number, 1, 0)) for number in (0, 1)]
    for job in jobs:
        api.submit("any", job)
    return jobs


@pytest.mark.parametrize("caller", ["api", "main"])
async def test_a_method_that_fails_answers_its_caller(caller):
    async with both_ends() as (api, main):
        end = api if caller == "api" else main
        for name in ("breaks", "no such method"):
            with pytest.raises(CallError):
                await with_deadline(end.call(name, 1))
        async with asyncio.timeout(60):
            assert await end.call("echoes", 7) == 7
        assert not end.calls


async def test_a_request_that_cannot_be_submitted_fails_and_those_behind_it_are_heard():
    async with both_ends() as (api, main):
        for job in two_jobs(api):
            with pytest.raises(EngineFailedError, match=STOPPED):
                await with_deadline(job.wait())
        async with asyncio.timeout(60):
            assert await api.call("echoes", "alive") == "alive"
        assert (api.jobs, main.jobs) == ({}, {})


async def test_what_one_job_cannot_take_in_is_cancelled_and_the_others_get_theirs():
    async with both_ends() as (api, main):
        received = []
        main._receive = received.append
        first, second = two_jobs(api)
        first.task = None
        first._pass_on = broken_registry
        api._receive_all(
            [{"model": None}, Finished(0, 0, bytes(35), 1.0), Finished(1, 0, bytes(35), 1.0)]
        )
        assert first.failure == Failed(0, NOT_TAKEN_IN)
        assert second.failure is None
        assert second.has_ended
        async with asyncio.timeout(60):
            await api.call("echoes")
        assert Cancel(0) in received
        assert Cancel(1) not in received
