"""Whose images an ingress hands out next, and that replicas learn whose they are."""

import asyncio
from collections import Counter, deque
from pathlib import Path

import pytest

from scanline.model.sampling.messages import GenerateRequest, Request, ScoreRequest
from scanline.server.cluster.turns import Distribution, Turns
from scanline.server.engine.job import Job, PendingJob
from tests.support.cluster.local_replicas import LocalReplicas, pool_of, replica_of
from tests.support.tiny import GREY


def asked(client: str, images: int, number: int = 0) -> Distribution:
    job = PendingJob(GenerateRequest(number, images, seed=7, client=client))
    return Distribution(job, deque(range(images)))


def hand_out(turns: Turns, times: int) -> list[str]:
    """Hand out one image at each of so many turns; return whose they were."""
    clients = []
    for _ in range(times):
        one = turns.pop()
        one.waiting.popleft()
        turns.count_out(one, 1)
        if one.waiting:
            turns.add(one)
        clients.append(one.client)
    return clients


def test_a_client_with_many_requests_gets_no_more_than_one_with_a_single_request() -> None:
    turns = Turns()
    for number in range(100):
        turns.add(asked("many", 4, number))
    turns.add(asked("one", 50))
    assert Counter(hand_out(turns, 40)) == {"many": 20, "one": 20}


def test_who_came_later_catches_up_and_what_comes_back_counts_no_more() -> None:
    turns = Turns()
    first = asked("first", 100)
    turns.add(first)
    hand_out(turns, 10)
    turns.add(asked("later", 100))
    assert hand_out(turns, 10) == ["later"] * 10
    turns.count_out(first, -4)
    assert hand_out(turns, 4) == ["first"] * 4


def test_requests_of_one_client_take_turns() -> None:
    turns = Turns()
    requests = [asked("one", 3, number) for number in range(3)]
    for request in requests:
        turns.add(request)
    hand_out(turns, 6)
    assert [len(request.waiting) for request in requests] == [1, 1, 1]


def test_a_cancelled_request_leaves_nothing_behind() -> None:
    turns = Turns()
    requests = [asked(f"client {number}", 2) for number in range(20)]
    for request in requests:
        turns.add(request)
        turns.count_out(request, 3)
    for request in requests:
        turns.remove(request)
        turns.remove(request)
        turns.count_out(request, -3)
    assert not turns
    assert not turns.out
    with pytest.raises(IndexError):
        turns.pop()


def test_a_small_request_of_one_client_overtakes_the_large_one_of_another(grey_directory: Path) -> None:
    async def run() -> list[Request]:
        async with replica_of(grey_directory) as replica:
            handle = LocalReplicas(replica)
            async with pool_of(handle, grey_directory) as pool:
                large = Job(GenerateRequest(next(pool.request_ids), 9_000, seed=7, client="key large"), GREY.bytes)
                small = Job(GenerateRequest(next(pool.request_ids), 4, seed=7, client="key small"), GREY.bytes)
                score = Job(ScoreRequest(next(pool.request_ids), (bytes(35),) * 2, client="key score"), GREY.bytes)
                with pool.run(large), pool.run(small), pool.run(score):
                    await asyncio.gather(small.wait(), score.wait())
                    assert large.images_left > 4_500
                    shards = pool.distributions[large.id].shards
                await asyncio.wait(set(shards))
                await asyncio.sleep(0)  # their callbacks
                assert (pool.out, pool.turns.out, pool.distributions) == (0, Counter(), {})
            return [command for command, _ in handle.sent]

    sent = asyncio.run(run())
    assert {request.client for request in sent} == {"key large", "key small", "key score"}
