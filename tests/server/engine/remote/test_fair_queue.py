"""The order in which clients' images are dispatched to replicas."""

from collections import Counter, deque

import pytest

from scanline.model.formats.code_file import Codes
from scanline.model.sampling.messages import GenerateRequest
from scanline.server.engine.job import Job
from scanline.server.engine.remote.fair_queue import FairQueue, ShardedJob


def asked(client: str, images: int, number: int = 0) -> ShardedJob:
    job = Job(GenerateRequest(number, images, seed=7, client=client))
    return ShardedJob(job, deque(range(images)))


def dispatch(queue: FairQueue, times: int) -> list[str]:
    """Dispatch one image at each of so many turns; return their clients."""
    clients = []
    for _ in range(times):
        job = queue.pop()
        job.waiting.popleft()
        queue.count(job.client, 1)
        if job.waiting:
            queue.add(job)
        clients.append(job.client)
    return clients


def test_a_client_with_many_requests_gets_no_more_than_one_with_a_single_request() -> None:
    queue = FairQueue()
    for number in range(100):
        queue.add(asked("many", 4, number))
    queue.add(asked("one", 50))
    assert Counter(dispatch(queue, 40)) == {"many": 20, "one": 20}


def test_a_later_client_catches_up_and_what_comes_back_counts_no_more() -> None:
    queue = FairQueue()
    queue.add(asked("first", 100))
    dispatch(queue, 10)
    queue.add(asked("later", 100))
    assert dispatch(queue, 10) == ["later"] * 10
    queue.count("first", -4)
    assert dispatch(queue, 4) == ["first"] * 4


def test_requests_of_one_client_take_turns() -> None:
    queue = FairQueue()
    requests = [asked("one", 3, number) for number in range(3)]
    for request in requests:
        queue.add(request)
    dispatch(queue, 6)
    assert [len(request.waiting) for request in requests] == [1, 1, 1]


def test_a_cancelled_request_leaves_nothing_behind() -> None:
    queue = FairQueue()
    requests = [asked(f"client {number}", 2) for number in range(20)]
    for request in requests:
        queue.add(request)
        queue.count(request.client, 3)
    for request in requests:
        queue.remove(request)
        queue.remove(request)
        queue.count(request.client, -3)
    assert not queue
    assert not queue.outstanding
    with pytest.raises(ValueError, match="empty"):
        queue.pop()


def test_the_images_of_a_code_have_one_slot_together_until_the_last_is_done() -> None:
    images = (0, 1, 3, 4, 5, 7)
    request = GenerateRequest(0, 9, seed=0, only=images, digest="model", codes=Codes((b"", b"", b""), length=3))
    sharded = ShardedJob(Job(request), deque(images))
    assert (sharded.slots, sharded.digest) == (3, "model")
    assert [sharded.slots_of((index,)) for index in images] == [0, 1, 0, 0, 1, 1]
    assert [index for index in images if sharded.is_followed(index)] == [0, 3, 4]
