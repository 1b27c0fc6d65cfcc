"""Any two kinds of reads at once: each image gets the bits, intervals and numbers that it gets alone."""

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import combinations_with_replacement

import pytest

from scanline.kernels import cpu as cpu_kernels
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import GenerateRequest, Request, ScoreRequest, StepRange
from tests.support import small_models
from tests.support.engine.mixed_requests import Answer, Answers, instruction_set

STROKES = {"height": 8, "width": 6, "predicts": "categorical", **small_models.WINDOW, **small_models.CLASSES}
CONFIG = small_models.config(**STROKES)
IMAGES = tuple(image.tobytes() for image in small_models.images(CONFIG, 2))
MASK = bytes(i < CONFIG.bytes // 2 for i in range(CONFIG.bytes))
KINDS = ["score", "code", "tolerance", "inspection", "prefix"]
WAYS = [("cpu", isa) for isa in (cpu_kernels.instruction_sets() if cpu_kernels.available() else [])] + [("eager", "")]


@pytest.fixture(scope="module")
def model() -> Transformer:
    return small_models.model(CONFIG)


@pytest.fixture(scope="module", params=WAYS, ids="-".join)
def engine(request: pytest.FixtureRequest, model: Transformer) -> Iterator[Engine]:
    backend, isa = request.param
    with instruction_set(isa):
        generator = Generator(model, 8, 2, backend=backend)
    yield Engine(generator)
    answers_alone.cache_clear()
    generator.close()


def request_of(kind: str, number: int, label: int) -> Request:
    labels = (label, 0) if label else ()
    match kind:
        case "code":
            return ScoreRequest(number, IMAGES, labels, coded=True)
        case "tolerance":
            return ScoreRequest(number, IMAGES, labels, tolerances=(20, 0))
        case "inspection":
            return ScoreRequest(number, IMAGES[:1], labels[:1], inspected=StepRange(1, 1, 5, 30))
        case "prefix":
            return GenerateRequest(number, 4, seed=7, known=IMAGES, masks=(MASK, MASK), label=label)
        case _:
            return ScoreRequest(number, IMAGES, labels)


def answers_of(engine: Engine, *requests: Request) -> list[dict[int, Answer]]:
    answers = defaultdict[int, Answers](Answers)
    for request in requests:
        engine.accept(request)
    while not engine.idle:
        for event in engine.tick():
            answers[event.request].add(event)  # type: ignore[union-attr]
    assert not any(each.faults for each in answers.values())
    return [answers[request.id].images for request in requests]


@cache
def answers_alone(engine: Engine, kind: str, label: int) -> dict[int, Answer]:
    (found,) = answers_of(engine, request_of(kind, 0, label))
    return found


@pytest.mark.parametrize("labels", [(0, 0), (2, 0), (3, 1)], ids=str)
@pytest.mark.parametrize("kinds", [*combinations_with_replacement(KINDS, 2)], ids="-".join)
def test_two_kinds_of_reads_at_once(engine: Engine, kinds: tuple[str, str], labels: tuple[int, int]) -> None:
    requests = [request_of(kind, number, label) for number, (kind, label) in enumerate(zip(kinds, labels, strict=True))]
    alone = [answers_alone(engine, *which) for which in zip(kinds, labels, strict=True)]
    assert all(alone)
    assert answers_of(engine, *requests) == alone
    assert answers_of(engine, *reversed(requests)) == alone[::-1]
