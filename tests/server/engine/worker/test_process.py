"""The process of an engine: what it imports before it is forked,
its commands, and the pipe to it.
"""

import asyncio
import gc
import importlib
import multiprocessing
import sys
import threading
from unittest import mock

import torch

from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.base.messages import (
    CannotLoad,
    Finished,
    GenerateRequest,
    Ready,
    Scheduled,
    Stop,
)
from scanline.server.engine.pipe import Pipe
from scanline.server.engine.worker.process import EngineOptions, auto_slots, run
from tests.support.engine.engines import RecordingClient
from tests.support.waiting import PATIENCE


def test_a_started_engine_reports_its_resources(faulty_engine, grey):
    generator = Generator(grey, 1, threads=1)
    how = (
        generator.backend.name,
        generator.digest,
        generator.backend_name,
        generator.fallbacks,
        generator.codings,
    )
    assert faulty_engine.ready == Ready(
        grey.parameter_count, 4, "cpu", grey.config.state_bytes_per_image, *how
    )


def test_that_a_request_has_a_slot_is_reported_with_the_next_event_that_is_waited_for(engine):
    ours, theirs = multiprocessing.Pipe()
    thread = threading.Thread(target=run, args=(engine, theirs))
    thread.start()
    ours.send([GenerateRequest(0, 1, seed=0)])
    messages = []
    while not any(isinstance(event, Finished) for message in messages for event in message):
        assert ours.poll(PATIENCE)
        messages.append(ours.recv())
    ours.send([Stop()])
    thread.join(PATIENCE)
    assert not thread.is_alive()
    gc.unfreeze()  # which the engine's process does not do
    assert all(
        any(not isinstance(event, Scheduled) for event in message)
        for message in messages
        if message
    )
    events = [
        event
        for message in messages
        for event in message
        if isinstance(event, Scheduled | Finished)
    ]
    assert [type(event) for event in events] == [Scheduled, Finished]


async def test_an_invalid_model_is_reported_in_one_sentence(tmp_path):
    engine = RecordingClient(EngineOptions(tmp_path))
    engine.start()
    await asyncio.wait_for(engine.failed.wait(), PATIENCE)
    await engine.close()
    assert engine.events == [
        CannotLoad(f"{tmp_path} is not a model directory: config.json is missing")
    ]


def test_slots_follow_the_free_memory_up_to_what_makes_painting_faster(monkeypatch):
    monkeypatch.setattr("scanline.server.engine.worker.process.free_memory", lambda: 5000)
    assert auto_slots(100, "cpu") == 10  # a quarter of it, a fifth of that for prefixes
    assert auto_slots(100, "cpu", share=0.5) == 5
    assert auto_slots(10_000, "cpu") == 1
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (80 * 10**9, 80 * 10**9))
    assert auto_slots(10**6, "cuda") == 4096
    assert auto_slots(10**6, "cuda", bfloat16_state=True) == 8192


def import_anew():
    for name in [name for name in sys.modules if name.partition(".")[0] == "scanline"]:
        del sys.modules[name]
    asked = mock.Mock(side_effect=AssertionError("an import asks for a GPU"))
    with mock.patch.multiple(
        torch.cuda, is_available=asked, device_count=asked, init=asked, _lazy_init=asked
    ):
        importlib.import_module("scanline.server.engine.worker.preloaded")


def test_no_import_asks_for_a_gpu():
    process = multiprocessing.get_context("fork").Process(target=import_anew)
    process.start()
    process.join()
    assert process.exitcode == 0


async def end(pipe):
    """Wait until the other process has closed its end, and close this one."""
    await asyncio.wait_for(pipe.closed.wait(), PATIENCE)
    await asyncio.to_thread(pipe.close)


async def test_messages_of_one_turn_cross_together_and_in_order():
    ours, theirs = multiprocessing.Pipe()
    pipe = Pipe(ours, lambda messages: None, "tested")
    for turn in ("ab", "c"):
        for message in turn:
            pipe.send(message)
        await asyncio.sleep(0)
    received = [theirs.recv() if theirs.poll(PATIENCE) else None for _ in range(2)]
    theirs.close()
    await end(pipe)
    assert received == [["a", "b"], ["c"]]


async def test_what_arrives_is_handled_on_the_loop_before_the_end_is_known():
    ours, theirs = multiprocessing.Pipe()
    found = []
    pipe = Pipe(ours, lambda messages: found.append((messages, pipe.closed.is_set())), "tested")
    began = pipe.last_received
    theirs.send([1, 2])
    theirs.send([])
    theirs.close()
    await end(pipe)
    assert pipe.last_received > began
    assert found == [([1, 2], False), ([], False)]


async def test_a_full_pipe_holds_up_neither_the_loop_nor_the_end():
    """Nobody reads the other end: what does not fit waits in the writer,
    and is lost with the other process.
    """
    ours, theirs = multiprocessing.Pipe()
    pipe = Pipe(ours, lambda messages: None, "tested")
    pipe.send(bytes(10_000_000))
    pipe.send("never read")
    await asyncio.sleep(0)
    theirs.close()
    await end(pipe)
    assert not any(thread.is_alive() for thread in pipe.threads)


def test_a_pipe_outlives_its_loop_without_a_word():
    ours, theirs = multiprocessing.Pipe()

    async def started():
        return Pipe(ours, lambda messages: None, "tested")

    pipe = asyncio.run(started())
    theirs.send(["too late"])
    theirs.close()
    pipe.close()
    assert not any(thread.is_alive() for thread in pipe.threads)
