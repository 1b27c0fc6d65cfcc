"""The native step is the network: every instruction set, against the parallel view and against itself."""

import logging

import pytest
import torch

from scanline.kernels import cpu as cpu_kernels
from scanline.model import backends
from scanline.model.backends.cpu import CpuBackend
from scanline.model.config import ModelConfig
from scanline.model.evaluation.likelihood import bits
from scanline.model.precision import PRECISIONS
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import ImageSpec
from scanline.model.sampling.offline import paint
from scanline.model.state import State
from tests.support import small_models
from tests.support.close import assert_close

pytestmark = pytest.mark.skipif(not cpu_kernels.available(), reason="the native step was not compiled")

INT8 = cpu_kernels.available() and cpu_kernels.instruction_sets()[0] in cpu_kernels.INT8_INSTRUCTION_SETS
WAYS = cpu_kernels.instruction_sets() if cpu_kernels.available() else []
EXACT_OR_FASTER = [name for name, precision in PRECISIONS.items() if not precision.int8_weights or INT8]
SIZES = {
    "odd": {},
    "vectors of 16": {"heads": 4, "key_width": 16, "value_width": 16, "feed_forward": 128, "components": 10},
    "the paper's heads": {"heads": 2, "key_width": 32, "value_width": 32, "feed_forward": 70},
    "one wide head": {"heads": 1, "key_width": 7, "value_width": 64, "components": 70},
}


def read(
    config: ModelConfig, instructions: str, precision: str = "exact", threads: int = 2, count: int = 3
) -> tuple[torch.Tensor, torch.Tensor, State]:
    """Bits, parameters and final state of some images."""
    backend = CpuBackend(small_models.model(config), threads, PRECISIONS[precision], instructions)
    state = State.zeros(config, count, state_dtype=backend.state_dtype)
    images = torch.from_numpy(small_models.images(config, count))
    found, parameters = backend.read_parameters(images, state, config.bytes)
    backend.close()
    return found, parameters, state


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("variant", small_models.VARIANTS)
@pytest.mark.parametrize("instructions", WAYS)
def test_parameters_bits_and_states_are_the_parallel_views(instructions: str, variant: str, size: str) -> None:
    config = small_models.config(**{**small_models.VARIANTS[variant], **SIZES[size]})
    model, images = small_models.model(config), torch.from_numpy(small_models.images(config, 3))
    law = State.zeros(config, 3)
    parameters = model.parallel(images, law)
    found, result, state = read(config, instructions)
    assert_close("parameters", parameters, result)
    assert_close("bits", bits(model, images)[:, config.first :], found)
    assert_close("s", law.s, state.s)
    assert_close("z", law.z, state.z)
    assert state.position.tolist() == [config.bytes] * 3


@pytest.mark.parametrize("precision", EXACT_OR_FASTER)
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_threads_and_other_images_change_no_bit(threads: int, count: int, precision: str) -> None:
    config = small_models.config(height=9, width=11, heads=3, key_width=16, value_width=16, feed_forward=90)
    law = read(config, WAYS[0], precision, threads=1, count=3)
    result = read(config, WAYS[0], precision, threads, count)
    assert torch.equal(law[0][:count], result[0])
    assert torch.equal(law[1][:count], result[1])
    assert torch.equal(law[2].s[:, :count], result[2].s)


@pytest.mark.parametrize("precision", EXACT_OR_FASTER)
@pytest.mark.parametrize("variant", ["plain", "colour", "authors", "histogram"])
def test_a_prefilled_front_is_a_forced_one_bit_for_bit(variant: str, precision: str) -> None:
    config = small_models.config(height=7, width=8, **small_models.VARIANTS[variant])
    prefix = config.bytes - 3
    mask = (torch.arange(config.bytes) < prefix).numpy()
    canvas = ImageSpec(1, 2, known=small_models.images(config, 1)[0], mask=mask)
    generator = Generator(small_models.model(config), 2, precision=precision)
    generator.place(0, canvas, generator.prefill(canvas))
    generator.clear(0)
    generator.place(1, canvas)
    generator.advance(prefix - config.first)
    state = generator.pool.state
    assert torch.equal(state.s[:, 0], state.s[:, 1])
    assert torch.equal(state.z[:, 0], state.z[:, 1])
    generator.close()


@pytest.mark.parametrize("instructions", WAYS)
def test_weights_in_float16_are_those_in_float32(instructions: str) -> None:
    config = small_models.config(**SIZES["the paper's heads"])
    stored = small_models.model(config).half().float()
    images = torch.from_numpy(small_models.images(config, 2))
    results = []
    for weights in ("float16", "float32"):
        backend = CpuBackend(stored, 1, instructions=instructions, weights=weights)
        state = State.zeros(config, 2)
        results.append((*backend.read_parameters(images, state, config.bytes), state.s))
        backend.close()
    assert all(torch.equal(*pair) for pair in zip(*results, strict=True))


def test_stored_weights_are_held_in_float16_and_others_in_float32() -> None:
    model = small_models.model(small_models.config())
    assert "weights float32" in CpuBackend(model).name
    assert "weights float16" in CpuBackend(model.half().float()).name


@pytest.mark.parametrize("instructions", [way for way in WAYS if way != "portable"])
def test_states_in_float16_are_the_same_in_software(instructions: str) -> None:
    config = small_models.config(**SIZES["vectors of 16"], height=3)
    law, result = (read(config, way, "float16-state")[2].s for way in ("portable", instructions))
    assert_close("s", law.float(), result.float(), bound=2e-3)  # one step of float16 where rounding sits at its edge


@pytest.mark.skipif(INT8, reason="this processor has AVX-512 VNNI")
def test_int8_is_refused_where_it_would_not_pay() -> None:
    with pytest.raises(ValueError, match="int8 weights need a processor with AVX-512 VNNI"):
        Generator(small_models.model(small_models.config()), 1, precision="int8")


@pytest.mark.parametrize("precision", [name for name in EXACT_OR_FASTER if name != "exact"])
def test_coarser_numbers_cost_little(precision: str) -> None:
    config = small_models.config(**SIZES["the paper's heads"])
    exact, coarse = read(config, WAYS[0])[0].mean(), read(config, WAYS[0], precision)[0].mean()
    assert exact != coarse
    assert abs(exact - coarse) < 0.02 * exact


@pytest.mark.parametrize("variant", small_models.VARIANTS)
def test_it_draws_what_torch_draws(variant: str) -> None:
    """The same random numbers through the same mixture; rounding may tip a byte here and there."""
    model = small_models.model(small_models.config(**small_models.VARIANTS[variant]))
    drawn = [
        torch.from_numpy(paint(model, 60, seed=5, temperature=0.8, backend=name).images) for name in ("cpu", "eager")
    ]
    first = model.config.first
    same = (drawn[0][:, : first + 4] == drawn[1][:, : first + 4]).double().mean()
    assert same > 0.99


@pytest.mark.parametrize(("length", "stop"), [(19, 10), (20, 21), (20, 6), (20, 5)])
def test_reading_beyond_an_image_is_refused(length: int, stop: int) -> None:
    backend, config = CpuBackend(small_models.model(small_models.config())), small_models.config()
    state = State.zeros(config, 1)
    state.position.fill_(6)
    with pytest.raises(ValueError, match="cannot run bytes 6 to"):
        backend.read(torch.zeros(1, length, dtype=torch.uint8), state, stop)


def test_an_instruction_set_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match=r"cannot run 'avx9'; it can run .*portable"):
        CpuBackend(small_models.model(small_models.config()), instructions="avx9")


def test_without_the_library_torch_serves_and_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cpu_kernels, "available", lambda: False)
    backends.best_backend.cache_clear()
    with caplog.at_level(logging.WARNING):
        ways = [Generator(small_models.model(small_models.config()), 1).backend.name for _ in range(2)]
    backends.best_backend.cache_clear()
    assert ways == ["torch (cpu)"] * 2
    assert [record.message for record in caplog.records] == [
        "the native step was not compiled at install (no C++ compiler?): the slower torch path serves"
    ]


def test_torch_refuses_what_it_cannot_do() -> None:
    with pytest.raises(ValueError, match="precision 'int8' needs the native step, on a CPU"):
        Generator(small_models.model(small_models.config()), 1, precision="int8", backend="eager")
    with pytest.raises(ValueError, match="precision 'float16-state' needs the native step or Triton"):
        Generator(small_models.model(small_models.config()), 1, precision="float16-state", backend="eager")
