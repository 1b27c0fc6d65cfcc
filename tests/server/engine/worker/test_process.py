"""The process of an engine: what it imports before it is forked, and its commands."""

import asyncio
import gc
import importlib
import multiprocessing
import sys
import threading
from pathlib import Path
from unittest import mock

import pytest
import torch

from scanline.model.network.transformer import Transformer
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import (
    CannotLoad,
    Event,
    Finished,
    GenerateRequest,
    Ready,
    Scheduled,
    Stop,
)
from scanline.server.engine.worker.process import EngineOptions, auto_slots, run
from tests.support.engine.engines import RecordingClient
from tests.support.waiting import PATIENCE


def test_a_started_engine_reports_its_resources(faulty_engine: RecordingClient, grey: Transformer) -> None:
    assert faulty_engine.ready is not None
    generator = Generator(grey, 1, threads=1)
    how = (generator.backend.name, generator.digest, generator.backend_name, generator.fallbacks, generator.codings)
    state_bytes = grey.config.state_bytes_per_image
    assert faulty_engine.ready == Ready(grey.parameter_count, 4, "cpu", state_bytes, *how)


def test_that_a_request_has_a_slot_is_reported_with_the_next_event_that_somebody_waits_for(
    engine: Engine,
) -> None:
    ours, theirs = multiprocessing.Pipe()
    thread = threading.Thread(target=run, args=(engine, theirs))
    thread.start()
    ours.send([GenerateRequest(0, 1, seed=0)])
    messages: list[list[Event]] = []
    while not any(isinstance(event, Finished) for message in messages for event in message):
        assert ours.poll(PATIENCE)
        messages.append(ours.recv())
    ours.send([Stop()])
    thread.join(PATIENCE)
    assert not thread.is_alive()
    gc.unfreeze()  # which the engine's process does not do
    assert all(any(not isinstance(event, Scheduled) for event in message) for message in messages if message)
    events = [event for message in messages for event in message if isinstance(event, Scheduled | Finished)]
    assert [type(event) for event in events] == [Scheduled, Finished]


def test_an_invalid_model_is_reported_in_one_sentence(runner: asyncio.Runner, tmp_path: Path) -> None:
    async def started() -> RecordingClient:
        engine = RecordingClient(EngineOptions(tmp_path))
        engine.start()
        await asyncio.wait_for(engine.failed.wait(), PATIENCE)
        await engine.close()
        return engine

    engine = runner.run(started())
    assert engine.events == [CannotLoad(f"{tmp_path} is not a model directory: config.json is missing")]
    assert engine.load_error is not None


def test_slots_follow_the_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scanline.server.engine.worker.process.free_memory", lambda: 5000)
    assert auto_slots(100, "cpu") == 10  # a quarter of it, a fifth of that for prefixes
    assert auto_slots(100, "cpu", share=0.5) == 5
    assert auto_slots(10_000, "cpu") == 1


def test_slots_are_no_more_than_make_painting_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (80 * 10**9, 80 * 10**9))
    assert auto_slots(10**6, "cuda") == 4096
    assert auto_slots(10**6, "cuda", bfloat16_state=True) == 8192


def import_anew() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "scanline"]:
        del sys.modules[name]
    asked = mock.Mock(side_effect=AssertionError("an import asks for a GPU"))
    with mock.patch.multiple(torch.cuda, is_available=asked, device_count=asked, init=asked, _lazy_init=asked):
        importlib.import_module("scanline.server.engine.worker.preloaded")


def test_no_import_asks_for_a_gpu() -> None:
    process = multiprocessing.get_context("fork").Process(target=import_anew)
    process.start()
    process.join()
    assert process.exitcode == 0
