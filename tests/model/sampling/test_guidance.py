"""Guided images in the engine: two slots each, and a function of their seed like every other image."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from scanline.kernels import cpu as cpu_kernels
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import Cancel, Event, Failed, Finished, GenerateRequest, Scheduled
from tests.support import small_models
from tests.support.engine.engine_ticks import run_until_idle
from tests.support.engine.queued_generator import QueuedGenerator
from tests.support.sweeps import and_slow

BACKENDS = and_slow(["cpu"], "eager") if cpu_kernels.available() else ["eager"]
GUIDED = GenerateRequest(0, 3, 77, label=2, guidance=2.5)


@pytest.fixture(scope="module")
def model() -> Transformer:
    return small_models.model(small_models.config(**small_models.VARIANTS["strokes"], **small_models.CLASSES))


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def edit(model: Transformer) -> GenerateRequest:
    """Completions of two images whose first bytes and some later ones are known."""
    known, mask = small_models.images(model.config, 2), np.arange(model.config.bytes) % 7 < 3
    return GenerateRequest(
        5, 4, 78, known=tuple(map(bytes, known)), masks=(mask.tobytes(),) * 2, label=1, guidance=3.0, client="another"
    )


@pytest.fixture(scope="module")
def alone(model: Transformer, backend: str, edit: GenerateRequest) -> dict[tuple[int, int], Finished]:
    """Each image of both requests, painted alone."""
    found = {}
    for request in (GUIDED, edit):
        for index in request.indices:
            generator = Generator(model, 2, 1, backend=backend)
            (event,) = run_until_idle(Engine(generator), request.shard((index,)))
            assert isinstance(event, Finished)
            found[request.id, index] = event
            generator.close()
    return found


def finished(events: list[Event], *requests: int) -> dict[tuple[int, int], Finished]:
    return {(one.request, one.index): one for one in events if isinstance(one, Finished) and one.request in requests}


@pytest.mark.parametrize(("slots", "threads", "kind"), [(2, 1, Generator), (5, 2, QueuedGenerator), (64, 1, Generator)])
def test_guided_images_are_the_same_in_a_crowd_of_requests_that_come_and_go(
    model: Transformer,
    backend: str,
    edit: GenerateRequest,
    alone: dict[tuple[int, int], Finished],
    slots: int,
    threads: int,
    kind: type[Generator],
) -> None:
    engine = Engine(kind(model, slots, threads, backend=backend))
    events: list[Event] = []
    for before in (GenerateRequest(1, 3, 1, label=3), GenerateRequest(2, 12, 2, label=1, guidance=1.5, client="many")):
        engine.accept(before)
    events += engine.tick()
    engine.accept(GUIDED)
    engine.accept(GenerateRequest(3, 2, 3, client="another"))
    events += engine.tick() + engine.tick()
    engine.accept(Cancel(2))
    events += run_until_idle(engine, edit)
    assert finished(events, 0, 5) == alone
    assert len(finished(events, 1, 3)) == 5
    assert sorted(engine.scheduler.free) == list(range(slots))
    assert not engine.scheduler.is_busy.any()
    engine.generator.close()


def test_known_bytes_are_kept_and_cost_what_they_do_under_the_class(
    model: Transformer, backend: str, edit: GenerateRequest, alone: dict[tuple[int, int], Finished]
) -> None:
    generator = Generator(model, 1, 1, backend=backend)
    for index in edit.indices:
        one, mask = alone[edit.id, index], np.frombuffer(edit.masks[0], np.bool_)
        image, known = (np.frombuffer(data, np.uint8) for data in (one.image, edit.known[index // 2]))
        assert (image[mask] == known[mask]).all()
        bits = generator.score(image[None], [edit.label])[0]
        assert one.bits_per_dim == pytest.approx(bits.mean(), rel=1e-5)
        assert one.evidence_bits == pytest.approx(bits[mask].sum(), rel=1e-5)
        assert one.effective_particles == 1.0
    generator.close()


def test_images_that_start_from_prefixes_are_those_of_single_steps(
    model: Transformer, backend: str, edit: GenerateRequest, alone: dict[tuple[int, int], Finished]
) -> None:
    generator = Generator(model, 2, 1, backend=backend)
    for index in edit.indices:
        spec = edit.image(index)
        generator.place_many([0, 1], [spec, replace(spec, label=0)])
        generator.advance(model.config.steps)
        assert generator.image(0).tobytes() == alone[edit.id, index].image
        rounding = 0 if backend == "cpu" else 1e-6  # torch adds in another order when it reads
        assert generator.bits_per_dim(0) == pytest.approx(alone[edit.id, index].bits_per_dim, rel=rounding, abs=0)
    generator.close()


def test_a_guided_image_takes_two_slots_and_counts_as_one_image(model: Transformer) -> None:
    engine = Engine(Generator(model, 5, 1, backend="eager"))
    engine.accept(GUIDED)
    engine.tick()
    stats = engine.stats()
    assert stats.images_waiting == 1
    assert len(engine.scheduler.free) == 1
    assert engine.scheduler.held == {"": 4}
    painted = stats.painted_bytes
    assert 0 < painted <= 2 * model.config.bytes
    run_until_idle(engine)
    assert engine.stats().painted_bytes == 3 * model.config.bytes
    engine.generator.close()


@pytest.fixture
def one_slot(model: Transformer) -> Iterator[Engine]:
    engine = Engine(Generator(model, 1, 1, backend="eager"))
    yield engine
    engine.generator.close()


def test_an_engine_of_one_slot_refuses_guidance_with_a_sentence_and_paints_others(one_slot: Engine) -> None:
    events = run_until_idle(one_slot, GUIDED, GenerateRequest(1, 2, 0, label=1))
    sentence = "This server has one slot, and a guided image needs two."
    assert [event for event in events if isinstance(event, Failed)] == [Failed(0, sentence, "guidance_not_supported")]
    assert len(finished(events, 1)) == 2
    assert not any(isinstance(event, Scheduled) and event.request == 0 for event in events)
