"""Failures inside the engine fail their own requests, with one event, and the engine goes on."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from scanline.model.backends.pending import Pending
from scanline.model.backends.slots import Fetched
from scanline.model.config import ModelConfig
from scanline.model.network.embedding import Embedding
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.errors import unrecoverable
from scanline.model.sampling.generator import Generator, ImageSpec
from scanline.model.sampling.launch import Launch
from scanline.model.sampling.messages import Failed, Finished, GenerateRequest, Scored, ScoreRequest
from scanline.model.sampling.prefill_state import Prefix
from scanline.model.tasks.offline import paint
from tests.support import small_models
from tests.support.engine.engine_ticks import run_until_idle

KNOWN = bytes(range(35))
COMPLETION = GenerateRequest(0, 4, seed=0, known=(KNOWN,), masks=(bytes(i < 12 for i in range(35)),))


def broken(*arguments: object) -> Prefix:
    raise RuntimeError("out of memory")


@pytest.mark.parametrize(
    ("work", "error", "late"),
    [
        ("start_prefill", torch.OutOfMemoryError, False),
        ("run_prefill", torch.OutOfMemoryError, False),
        ("run_prefill", OSError, False),
        ("run_prefill", RuntimeError, True),
    ],
)
def test_a_prefix_that_fails_or_has_no_room_on_the_gpu_fails_its_request_alone_and_frees_its_slots(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, work: str, error: type[Exception], late: bool
) -> None:
    def fail(*arguments: object) -> float:
        raise error("CUDA out of memory. Tried to allocate 20.00 MiB.")

    monkeypatch.setattr(engine.generator, work, (lambda *arguments: Pending(fail)) if late else fail)
    events = run_until_idle(engine, COMPLETION, GenerateRequest(1, 4, seed=1))
    assert [event.request for event in events if isinstance(event, Failed)] == [0]
    assert [event.request for event in events if isinstance(event, Finished)] == [1] * 4
    assert sorted(engine.scheduler.free) == list(range(5))


def test_an_image_that_cannot_be_placed_fails_its_request_alone(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = engine.generator.place_many

    def one_breaks(slots: Sequence[int], specs: Sequence[ImageSpec], prefixes: Sequence[Prefix | None]) -> None:
        if any((spec.seed, spec.index) == (7, 1) for spec in specs):
            raise RuntimeError("out of memory")
        place(slots, specs, prefixes)

    monkeypatch.setattr(engine.generator, "place_many", one_breaks)
    events = run_until_idle(engine, GenerateRequest(0, 2, seed=7), GenerateRequest(1, 2, seed=0))
    assert sorted((type(event).__name__, event.request) for event in events) == [
        ("Failed", 0),
        ("Finished", 1),
        ("Finished", 1),
    ]


def test_a_failing_step_fails_what_is_in_flight_once_and_the_engine_paints_on(
    engine: Engine, grey: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(engine.generator, "start", broken)
        events = run_until_idle(engine, GenerateRequest(0, 4, seed=0), GenerateRequest(1, 1, seed=1))
    assert [(type(event), event.request) for event in events] == [(Failed, 0), (Failed, 1)]
    (finished,) = run_until_idle(engine, GenerateRequest(2, 1, seed=1))
    assert isinstance(finished, Finished)
    assert finished.image == paint(grey, 1, seed=1).images.tobytes()


def test_a_failing_score_fails_its_request_once_with_one_sentence(engine: Engine) -> None:
    events = run_until_idle(engine, ScoreRequest(0, (b"short", b"too", KNOWN)), ScoreRequest(1, (KNOWN,)))
    assert [(type(event), event.request) for event in events] == [(Failed, 0), (Scored, 1)]
    assert isinstance(events[0], Failed)
    assert events[0].message == "The engine failed while it worked on this request; its log says why."


@pytest.mark.parametrize("work", ["start_prefill", "run_prefill", "place_many", "start"])
@pytest.mark.parametrize("how", [lambda: np.empty(1 << 50), lambda: torch.empty(1 << 50)], ids=["numpy", "torch"])
def test_an_engine_does_not_continue_without_memory(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, work: str, how: Callable[[], object]
) -> None:
    monkeypatch.setattr(engine.generator, work, lambda *arguments: how())
    with pytest.raises((MemoryError, RuntimeError)) as caught:
        run_until_idle(engine, COMPLETION, ScoreRequest(1, (KNOWN,)))
    assert unrecoverable(caught.value) == "out of memory"


@pytest.mark.parametrize("work", ["put_prefix", "_placement", "_queue_prefix"])
def test_a_failure_of_an_image_that_starts_fails_its_request_alone(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    """Those that are being painted, and a score that ended in the same pass, are answered."""
    original = getattr(engine.admission, work)

    def one_breaks(given: object, *rest: object) -> object:
        if 0 in (getattr(given, "request", None), getattr(given, "id", None)):
            raise KeyError(0)
        return original(given, *rest)

    monkeypatch.setattr(engine.admission, work, one_breaks)
    others = replace(COMPLETION, id=1), GenerateRequest(2, 4, seed=1), ScoreRequest(3, (KNOWN, KNOWN))
    events = run_until_idle(engine, COMPLETION, *others)
    assert [event.request for event in events if isinstance(event, Failed)] == [0]
    ended = Counter(event.request for event in events if isinstance(event, Finished | Scored))
    assert ended == {1: 4, 2: 4, 3: 2}
    assert sorted(engine.scheduler.free) == list(range(5))


@pytest.mark.parametrize("work", ["match", "add", "insert"])
def test_a_prefix_tree_that_fails_is_dropped_and_images_are_painted_without_it(
    engine: Engine, grey: Transformer, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    if engine.admission.tree is None:
        pytest.skip("only the cpu kernel has a prefix tree")
    monkeypatch.setattr(engine.admission.tree, work, broken)
    events = run_until_idle(engine, GenerateRequest(0, 7, seed=3))
    images = {event.index: event.image for event in events if isinstance(event, Finished)}
    assert b"".join(images[i] for i in range(7)) == paint(grey, 7, seed=3).images.tobytes()
    assert engine.admission.tree is None


def unsound(config: ModelConfig) -> Engine:
    """Of a model that has no use for byte 77, and so for no image that has one before its last byte."""
    model = small_models.model(config)
    assert isinstance(model.embedding, Embedding)
    model.embedding.value[77] = float("nan")
    return Engine(Generator(model, 4))


def test_numbers_that_are_not_finite_fail_their_requests_and_no_other() -> None:
    config = small_models.config(height=2, width=3)
    known, other = bytes([9, 77, 9, 9, 9, 9]), bytes([9, 9, 9, 9, 9, 77])
    masks = (bytes([1, 1, 1, 0, 0, 0]),)  # read as a prefix
    midst = (bytes([0, 1, 0, 0, 0, 0]),)  # painted
    engine = unsound(config)
    events = run_until_idle(
        engine,
        GenerateRequest(0, 2, seed=0, known=(known,), masks=masks),
        GenerateRequest(1, 2, seed=0, known=(known,), masks=midst, stream=True),
        GenerateRequest(2, 1, seed=0, known=(other,), masks=masks, stream=True),
        ScoreRequest(3, (known,)),
        ScoreRequest(4, (other,)),
    )
    failed = {event.request: event.message for event in events if isinstance(event, Failed)}
    assert sorted(failed) == [0, 1, 3]
    assert set(failed.values()) == {"The model computed numbers that are not finite for an image of this request."}
    assert [event.request for event in events if isinstance(event, Scored)] == [4]
    assert [event.request for event in events if isinstance(event, Finished)] == [2]


@pytest.mark.parametrize(("of", "work"), [("streams", "due"), ("launch", "pixels"), ("launch", "state_snapshots")])
def test_a_stream_that_fails_fails_alone(engine: Engine, monkeypatch: pytest.MonkeyPatch, of: str, work: str) -> None:
    monkeypatch.setattr(engine.streams if of == "streams" else Launch, work, broken)
    streamed = GenerateRequest(0, 4, seed=0, stream=True)
    events = run_until_idle(engine, streamed, GenerateRequest(1, 4, seed=1), ScoreRequest(2, (KNOWN,)))
    assert [event.request for event in events if isinstance(event, Failed)] == [0]
    assert Counter(event.request for event in events if isinstance(event, Finished | Scored)) == {1: 4, 2: 1}
    assert sorted(engine.scheduler.free) == list(range(5))


def test_a_failing_tick_fails_what_it_was_computing_and_those_that_wait_are_painted(
    engine: Engine, grey: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch, failures = engine.generator.fetch, iter([True])

    def fails_once(slots: Sequence[int]) -> Pending[Fetched]:
        if next(failures, False):
            raise RuntimeError("a device failed")
        return fetch(slots)

    monkeypatch.setattr(engine.generator, "fetch", fails_once)
    engine.accept(GenerateRequest(0, 5, seed=0))
    engine.tick()
    events = run_until_idle(engine, GenerateRequest(1, 3, seed=1))
    assert [event.request for event in events if isinstance(event, Failed)] == [0]
    images = {event.index: event.image for event in events if isinstance(event, Finished) and event.request == 1}
    assert b"".join(images[i] for i in range(3)) == paint(grey, 3, seed=1).images.tobytes()
    assert sorted(engine.scheduler.free) == list(range(5))
