"""The digest: equal wherever the same seed gives the same bytes, another one where it may not."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from scanline.kernels import cpu as cpu_kernels
from scanline.model.backends.cpu import CpuBackend
from scanline.model.formats.checkpoint import load_model, save_model
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.base import digest as digests
from scanline.model.sampling.base.digest import coding_digests, model_digest
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.base.messages import (
    Failed,
    Finished,
    GenerateRequest,
    Scored,
    ScoreRequest,
)
from scanline.model.sampling.engine import OTHER_MODEL, Engine
from tests.support import small_models
from tests.support.engine.engine_ticks import ended, images_of, of_kind, run_until_idle
from tests.support.kernels.native import NATIVE

KNOWN = bytes(range(35))
OTHER = "0" * 32
CLASSES = replace(small_models.GREY, **small_models.CLASSES)


def test_slots_and_threads_do_not_change_it(grey):
    (one,) = {
        Generator(grey, slots, threads).digest for slots, threads in ((1, 1), (1, 2), (40, 1))
    }
    assert len(one) == 32
    assert set(one) <= set("0123456789abcdef")


@NATIVE
def test_the_instruction_set_of_the_cpu_kernel_does_not_change_it(grey):
    backends = [CpuBackend(grey, 1, isa=isa) for isa in cpu_kernels.instruction_sets()]
    assert len({model_digest(grey, backend, "exact") for backend in backends}) == 1


@pytest.mark.parametrize("name", sorted(small_models.model(CLASSES).state_dict()))
def test_one_number_of_any_tensor_changes_it(name):
    model = small_models.model(CLASSES)
    before = Generator(model, 1, backend="eager").digest
    model.state_dict()[name].view(-1)[-1] += 0.125
    assert Generator(model, 1, backend="eager").digest != before


def test_configuration_precision_and_version_change_it(grey, monkeypatch):
    backend = Generator(grey, 1, backend="eager").backend
    same_weights = small_models.model(replace(small_models.GREY, scale="elu"))
    same_weights.load_state_dict(grey.state_dict())
    found = [model_digest(grey, backend, "exact"), model_digest(same_weights, backend, "exact")]
    found.append(model_digest(grey, backend, "int8"))
    for change in (
        (backend, "build", "another"),
        (digests, "version", lambda: "0.0.0"),
        (digests, "PAINTING", 0),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(*change)
            found.append(model_digest(grey, backend, "exact"))
    assert len(set(found)) == 6


def test_what_rounds_differently_has_other_digests(grey, monkeypatch):
    """As MKL does on another processor, of which the backend's description says nothing."""
    backend = Generator(grey, 1, backend="eager").backend
    linear = functional.linear

    def both():
        return model_digest(grey, backend, "exact"), coding_digests(grey, backend, "exact")[0]

    def in_float64(values, weight, bias=None):
        return linear(
            values.double(), weight.double(), None if bias is None else bias.double()
        ).float()

    before = both()
    assert before == both()
    monkeypatch.setattr(functional, "linear", in_float64)
    assert all(first != second for first, second in zip(before, both(), strict=True))


def test_words_of_classes_and_mirrored_change_no_coding():
    words = tuple((f"word {number}",) for number, _ in enumerate(CLASSES.classes))
    generators = [
        Generator(small_models.model(config), 1, backend="eager")
        for config in (CLASSES, replace(CLASSES, classes=words), replace(CLASSES, mirrored=True))
    ]
    assert len({each.codings[0] for each in generators}) == 1
    assert len({each.digest for each in generators}) == 3


def test_a_request_for_this_model_is_done_and_one_for_another_fails_with_one_sentence(
    engine,
):
    digest = engine.generator.digest
    events = run_until_idle(
        engine,
        GenerateRequest(0, 2, seed=0, digest=OTHER),
        GenerateRequest(1, 2, seed=0, digest=digest),
        ScoreRequest(2, (KNOWN,), digest=OTHER),
        ScoreRequest(3, (KNOWN,), digest=digest),
    )
    failed = [Failed(request, OTHER_MODEL, "model_changed") for request in (0, 2)]
    assert of_kind(events, Failed) == failed
    assert (ended(events, Finished), ended(events, Scored)) == ([1, 1], [3])


def test_a_class_head_is_part_of_what_a_classification_is_asked_of_and_of_nothing_else():
    generators = []
    for seed in (None, 0, 1):
        model = small_models.model(CLASSES)
        model.class_head = None if seed is None else small_models.class_head(CLASSES, seed)
        generators.append(Generator(model, 2, threads=1, backend="eager"))
    without, first, second = generators
    assert without.digest == first.digest == second.digest
    assert without.class_head_digest == ""
    assert len({first.class_head_digest, second.class_head_digest, ""}) == 3
    for generator in generators:
        engine = Engine(generator)
        asked = [without, first, second]
        requests = [
            ScoreRequest(
                number, (KNOWN,), classified=True, digest=each.digest + each.class_head_digest
            )
            for number, each in enumerate(asked)
            if each is not without
        ]
        events = run_until_idle(
            engine,
            *requests,
            ScoreRequest(3, (KNOWN,), classified=True),
            ScoreRequest(4, (KNOWN,), digest=first.digest),
            GenerateRequest(5, 1, seed=0, digest=first.digest),
        )
        here = asked.index(generator)
        refused = [number for number in (1, 2) if number != here]
        refused += [3] if generator is without else []
        failed = of_kind(events, Failed)
        assert failed == [Failed(number, OTHER_MODEL, "model_changed") for number in refused]
        assert sorted(ended(events, Scored)) == [
            number for number in (1, 2, 3, 4) if number not in refused
        ]
        assert ended(events, Finished) == [5]


@pytest.mark.parametrize(
    ("dtype", "backend", "change"),
    [(torch.float16, "cpu", "overwritten"), (torch.float32, "eager", "truncated")],
    ids=str,
)
def test_files_overwritten_in_place_change_no_painted_byte_and_no_digest(
    tmp_path, grey, dtype, backend, change
):
    if backend == "cpu" and not cpu_kernels.available():
        pytest.skip("needs the compiled library")
    save_model(grey, tmp_path, dtype)
    engine = Engine(Generator(load_model(tmp_path), 2, threads=1, backend=backend))
    painting = GenerateRequest(0, 3, 5)
    before = images_of(run_until_idle(engine, painting))
    weights = tmp_path / "model.safetensors"
    size = weights.stat().st_size
    node = weights.stat().st_ino
    noise = (
        np.random.default_rng(0).integers(0, 60, size, np.uint8).tobytes()
        if change == "overwritten"
        else b""
    )
    with weights.open("r+b") as file:
        file.write(noise)
        file.truncate()
    assert weights.stat().st_ino == node
    assert images_of(run_until_idle(engine, painting)) == before
    stored = Transformer(grey.config).eval().requires_grad_(False)
    stored.load_state_dict(
        {name: tensor.to(dtype).float() for name, tensor in grey.state_dict().items()}
    )
    assert engine.generator.digest == Generator(stored, 1, threads=1, backend=backend).digest
