"""The pipe to another process, here its other end: what is sent in one turn of the loop is one message of it."""

import asyncio
import multiprocessing
from typing import Any

from scanline.server.engine.pipe import Pipe
from tests.support.waiting import PATIENCE


def test_messages_of_one_turn_cross_together_and_in_order() -> None:
    async def sent() -> list[list[Any]]:
        ours, theirs = multiprocessing.Pipe()
        pipe = Pipe(ours, lambda messages: None, "tested")
        for turn in ("ab", "c"):
            for message in turn:
                pipe.send(message)
            await asyncio.sleep(0)
        received = [theirs.recv() if theirs.poll(PATIENCE) else None for _ in range(2)]
        theirs.close()
        await asyncio.wait_for(pipe.closed.wait(), PATIENCE)
        await asyncio.to_thread(pipe.close)
        return received

    assert asyncio.run(sent()) == [["a", "b"], ["c"]]


def test_what_arrives_is_handled_on_the_loop_before_the_end_is_known() -> None:
    async def received() -> list[Any]:
        ours, theirs = multiprocessing.Pipe()
        found: list[Any] = []
        pipe = Pipe(ours, lambda messages: found.append((messages, pipe.closed.is_set())), "tested")
        began = pipe.last_received
        theirs.send([1, 2])
        theirs.send([])
        theirs.close()
        await asyncio.wait_for(pipe.closed.wait(), PATIENCE)
        assert pipe.last_received > began
        await asyncio.to_thread(pipe.close)
        return found

    assert asyncio.run(received()) == [([1, 2], False), ([], False)]


def test_a_full_pipe_holds_up_neither_the_loop_nor_the_end() -> None:
    """Nobody reads the other end: what does not fit waits in the writer, and is lost with the other process."""

    async def closed() -> bool:
        ours, theirs = multiprocessing.Pipe()
        pipe = Pipe(ours, lambda messages: None, "tested")
        pipe.send(bytes(10_000_000))
        pipe.send("never read")
        await asyncio.sleep(0)
        theirs.close()
        await asyncio.wait_for(pipe.closed.wait(), PATIENCE)
        await asyncio.to_thread(pipe.close)
        return any(thread.is_alive() for thread in pipe.threads)

    assert asyncio.run(closed()) is False


def test_a_pipe_outlives_its_loop_without_a_word() -> None:
    ours, theirs = multiprocessing.Pipe()

    async def started() -> Pipe:
        return Pipe(ours, lambda messages: None, "tested")

    pipe = asyncio.run(started())
    theirs.send(["too late"])
    theirs.close()
    pipe.close()
    assert not any(thread.is_alive() for thread in pipe.threads)
