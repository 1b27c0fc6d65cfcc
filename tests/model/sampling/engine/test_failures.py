"""Failures inside the engine fail their own requests, with one event, and the engine goes on."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from scanline.model.backends.pending import Pending
from scanline.model.sampling.base.errors import unrecoverable
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.base.messages import (
    Cancel,
    Failed,
    Finished,
    GenerateRequest,
    Scored,
    ScoreRequest,
)
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.launch import Launch
from scanline.model.tasks.offline import paint
from tests.support import small_models
from tests.support.engine.engine_ticks import ended, images_of, of_kind, run_until_idle

NOT_FINITE = "The model computed numbers that are not finite for an image of this request."
KNOWN = bytes(range(35))
COMPLETION = GenerateRequest(
    0, 4, seed=0, known=(KNOWN,), masks=(bytes(i < 12 for i in range(35)),), stream=True
)


def broken(*arguments):
    raise RuntimeError("out of memory")


@pytest.mark.parametrize(
    ("of", "work", "error", "late"),
    [
        ("generator", "start_prefill", torch.OutOfMemoryError, False),
        ("generator", "run_prefill", torch.OutOfMemoryError, False),
        ("generator", "run_prefill", OSError, False),
        ("generator", "run_prefill", RuntimeError, True),
        ("streams", "due", RuntimeError, False),
        ("launch", "pixels", RuntimeError, False),
        ("launch", "state_snapshots", RuntimeError, False),
    ],
)
def test_a_prefix_or_a_stream_that_fails_fails_its_request_alone_and_frees_its_slots(
    engine,
    monkeypatch,
    of,
    work,
    error,
    late,
):
    def fail(*arguments):
        raise error("CUDA out of memory. Tried to allocate 20.00 MiB.")

    holder = {"generator": engine.generator, "streams": engine.streams, "launch": Launch}[of]
    monkeypatch.setattr(holder, work, (lambda *arguments: Pending(fail)) if late else fail)
    events = run_until_idle(engine, COMPLETION, GenerateRequest(1, 4, seed=1))
    assert (ended(events, Failed), ended(events, Finished)) == ([0], [1] * 4)
    assert sorted(engine.scheduler.free) == list(range(5))


@pytest.mark.parametrize("work", ["put_prefix", "_placement", "_queue_prefix", "place_many"])
def test_an_image_that_cannot_start_fails_alone(engine, monkeypatch, work):
    """Those that are being painted, and a score that ended in the same pass, are answered."""
    holder = engine.generator if work == "place_many" else engine.admission
    original = getattr(holder, work)

    def one_breaks(given, *rest):
        seeds = [getattr(spec, "seed", None) for spec in rest[0]] if work == "place_many" else []
        if 0 in (getattr(given, "request", None), getattr(given, "id", None), *seeds):
            raise KeyError(0)
        return original(given, *rest)

    monkeypatch.setattr(holder, work, one_breaks)
    others = (
        replace(COMPLETION, id=1, seed=1),
        GenerateRequest(2, 4, seed=1),
        ScoreRequest(3, (KNOWN, KNOWN)),
    )
    events = run_until_idle(engine, COMPLETION, *others)
    assert ended(events, Failed) == [0]
    assert Counter(ended(events, Finished) + ended(events, Scored)) == {1: 4, 2: 4, 3: 2}
    assert sorted(engine.scheduler.free) == list(range(5))


def test_of_requests_that_start_in_one_call_the_broken_one_fails_alone(engine, grey, monkeypatch):
    original = engine.generator.place_many
    calls = []

    def one_breaks(slots, specs, prefixes):
        seeds = {spec.seed for spec in specs}
        calls.append(seeds)
        if 0 in seeds:
            raise KeyError(0)
        original(slots, specs, prefixes)

    monkeypatch.setattr(engine.generator, "place_many", one_breaks)
    events = run_until_idle(engine, GenerateRequest(0, 2, seed=1), GenerateRequest(1, 2, seed=0))
    assert calls[0] == {0, 1}
    assert ended(events, Failed) == [1]
    assert images_of(events, 0) == paint(grey, 2, seed=1).images.tobytes()
    assert sorted(engine.scheduler.free) == list(range(5))


@pytest.mark.parametrize(
    "request_",
    [
        GenerateRequest(0, 0, seed=0),
        GenerateRequest(0, 2, seed=0, known=(KNOWN,), stream=True),
        ScoreRequest(0, (KNOWN, KNOWN), labels=(1,)),
        ScoreRequest(0, (KNOWN,), only=(3,)),
    ],
    ids=["no image", "no mask", "few labels to score", "no such image"],
)
def test_a_request_that_cannot_be_queued_fails_alone(engine, grey, request_):
    events = run_until_idle(
        engine, GenerateRequest(1, 2, seed=1), request_, GenerateRequest(2, 2, seed=2)
    )
    assert ended(events, Failed) == [0]
    for seed in (1, 2):
        assert images_of(events, seed) == paint(grey, 2, seed=seed).images.tobytes()
    assert sorted(engine.scheduler.free) == list(range(5))


def test_a_cancel_that_fails_ends_nothing_else(engine, grey, monkeypatch):
    with monkeypatch.context() as patch:
        failures = iter([True])
        clear = engine.generator.clear
        patch.setattr(
            engine.generator,
            "clear",
            lambda slots: broken() if next(failures, False) else clear(slots),
        )
        engine.accept(GenerateRequest(0, 9, seed=0))
        engine.accept(GenerateRequest(1, 2, seed=1))
        engine.tick()
        events = run_until_idle(engine, Cancel(0))
    assert images_of(events, 1) == paint(grey, 2, seed=1).images.tobytes()
    assert sorted(engine.scheduler.free) == list(range(5))


def test_a_failing_step_fails_all_in_flight(engine, grey, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(engine.generator, "start", broken)
        events = run_until_idle(
            engine, GenerateRequest(0, 4, seed=0), GenerateRequest(1, 1, seed=1)
        )
    assert [(type(event), event.request) for event in events] == [(Failed, 0), (Failed, 1)]
    stats = engine.stats()
    assert (stats.requests_running, stats.images_running, sum(stats.first_pixel.counts)) == (
        0,
        0,
        0,
    )
    events = run_until_idle(engine, GenerateRequest(2, 1, seed=1))
    assert images_of(events, 2) == paint(grey, 1, seed=1).images.tobytes()


@pytest.mark.parametrize(
    "work", ["start_prefill", "run_prefill", "place_many", "start", "match", "insert"]
)
@pytest.mark.parametrize(
    "how", [lambda: np.empty(1 << 50), lambda: torch.empty(1 << 50)], ids=["numpy", "torch"]
)
def test_an_engine_does_not_continue_without_memory(engine, monkeypatch, work, how):
    holder = engine.admission.tree if work in ("match", "insert") else engine.generator
    if holder is None:
        pytest.skip("only the cpu kernel has a prefix tree")
    monkeypatch.setattr(holder, work, lambda *arguments: how())
    with pytest.raises((MemoryError, RuntimeError)) as caught:
        run_until_idle(engine, COMPLETION, ScoreRequest(1, (KNOWN,)), GenerateRequest(2, 1, seed=0))
    assert unrecoverable(caught.value) == "out of memory"


DEVICE_ERRORS = [
    RuntimeError("Triton Error [CUDA]: an illegal memory access was encountered"),
    RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(...)`"),
    IndexError("numbers that a failed device has left behind"),
    torch.OutOfMemoryError("CUDA out of memory."),
]
WORKS = [
    ("generator", "start_prefill"),
    ("generator", "run_prefill"),
    ("pass", "run_prefill"),
    ("generator", "place_many"),
    ("generator", "start"),
    ("generator", "fetch"),
    ("admission", "put_prefix"),
    ("admission", "_placement"),
    ("admission", "_queue_prefix"),
    ("streams", "due"),
    ("launch", "pixels"),
]


@pytest.mark.parametrize("error", DEVICE_ERRORS, ids=repr)
@pytest.mark.parametrize(("of", "work"), WORKS)
def test_an_engine_does_not_continue_on_a_failed_device(grey, monkeypatch, of, work, error):
    has_failed = []

    def fail(*arguments):
        has_failed.append(True)
        raise error

    def synchronize():
        if has_failed:
            raise RuntimeError("CUDA error")

    generator = Generator(grey, 5, threads=1, synchronize=synchronize)
    engine = Engine(generator)
    holders = {
        "generator": generator,
        "pass": generator,
        "admission": engine.admission,
        "streams": engine.streams,
        "launch": Launch,
    }
    monkeypatch.setattr(
        holders[of], work, (lambda *arguments: Pending(fail)) if of == "pass" else fail
    )
    with pytest.raises(type(error)) as caught:
        run_until_idle(engine, COMPLETION, ScoreRequest(1, (KNOWN,)), GenerateRequest(2, 1, seed=0))
    assert caught.value is error
    assert unrecoverable(caught.value, synchronize) == "the device failed"
    assert unrecoverable(caught.value, lambda: None) is None


@pytest.mark.parametrize("work", ["match", "add", "insert"])
def test_a_prefix_tree_that_fails_is_dropped_and_images_are_painted_without_it(
    engine, grey, monkeypatch, work
):
    if engine.admission.tree is None:
        pytest.skip("only the cpu kernel has a prefix tree")
    monkeypatch.setattr(engine.admission.tree, work, broken)
    assert (
        images_of(run_until_idle(engine, GenerateRequest(0, 7, seed=3)))
        == paint(grey, 7, seed=3).images.tobytes()
    )
    assert engine.admission.tree is None


def test_numbers_that_are_not_finite_fail_their_requests_and_no_other():
    """Of a model that has no use for byte 77, and so for no image
    that has one before its last byte.
    """
    model = small_models.model(small_models.config(height=2, width=3))
    model.embedding.value[77] = float("nan")
    known = bytes([9, 77, 9, 9, 9, 9])
    other = bytes([9, 9, 9, 9, 9, 77])
    masks = (bytes([1, 1, 1, 0, 0, 0]),)  # read as a prefix
    midst = (bytes([0, 1, 0, 0, 0, 0]),)  # painted
    events = run_until_idle(
        Engine(Generator(model, 4)),
        GenerateRequest(0, 2, seed=0, known=(known,), masks=masks),
        GenerateRequest(1, 2, seed=0, known=(known,), masks=midst, stream=True),
        GenerateRequest(2, 1, seed=0, known=(other,), masks=masks, stream=True),
        ScoreRequest(3, (known,)),
        ScoreRequest(4, (other,)),
    )
    failed = {event.request: event.message for event in of_kind(events, Failed)}
    assert sorted(failed) == [0, 1, 3]
    assert set(failed.values()) == {NOT_FINITE}
    assert (ended(events, Scored), ended(events, Finished)) == ([4], [2])


def test_logits_that_are_not_finite_fail_their_request_and_no_other():
    config = small_models.config(**small_models.CLASSES)
    model = small_models.model(config)
    head = small_models.class_head(config)
    model.class_head = replace(head, bias=torch.full_like(head.bias, float("nan")))
    picture = bytes(config.bytes)
    requests = ScoreRequest(0, (picture,), classified=True), ScoreRequest(1, (picture,))
    events = run_until_idle(Engine(Generator(model, 4)), *requests)
    (failed,) = of_kind(events, Failed)
    assert (failed.request, failed.message) == (0, NOT_FINITE)
    assert ended(events, Scored) == [1]


def test_a_failing_tick_fails_its_own_work(engine, grey, monkeypatch):
    fetch = engine.generator.fetch
    failures = iter([True])

    def fails_once(slots):
        return broken() if next(failures, False) else fetch(slots)

    monkeypatch.setattr(engine.generator, "fetch", fails_once)
    engine.accept(GenerateRequest(0, 5, seed=0))
    engine.tick()
    events = run_until_idle(engine, GenerateRequest(1, 3, seed=1))
    assert ended(events, Failed) == [0]
    assert images_of(events, 1) == paint(grey, 3, seed=1).images.tobytes()
    assert sorted(engine.scheduler.free) == list(range(5))
