"""The choice of a backend: the first that compiles, starts and passes the
self-test; the others log why not.
"""

import logging

import pytest
import torch

from scanline.kernels import cpu as cpu_kernels
from scanline.kernels.triton.linear import NARROW
from scanline.model import backends
from scanline.model.backends import TRITON, NoRoomError, cuda_step, open_backend
from scanline.model.backends.cuda import CudaBackend
from scanline.model.sampling.base.generator import Generator
from tests.support import small_models
from tests.support.kernels.gpu import DEVICE
from tests.support.kernels.native import BACKENDS, NATIVE

ALL = "cuda,cuda-unchained,cuda-narrow,eager"
MODEL = small_models.config(height=1, width=2, layers=1, heads=1)  # the interpreter takes its time
PLACES = {
    "construction": "RuntimeError: no kernel image is available",
    "warm-up": "RuntimeError: out of resource: shared memory",
    "self-test": "WrongResultsError: painting: bits is off by 1 ",
}


def broken(place, names, made):
    """`made`, but what it makes of these names fails at that place."""

    def fail_to_start(pool):
        raise RuntimeError("out of resource: shared memory\nReducing block sizes may help.")

    def make(name, *arguments):
        if name in names and place == "construction":
            raise RuntimeError("no kernel image is available\nCompile with TORCH_USE_CUDA_DSA.")
        backend = made(name, *arguments)
        advance = backend.advance

        def charge_more(pool, slots, steps):
            pending = advance(pool, slots, steps)
            pool.bits.add_(0.5)
            return pending

        if name in names and place == "warm-up":
            backend.warm_up = fail_to_start
        elif name in names and place == "self-test":
            backend.advance = charge_more
        return backend

    return make


@pytest.fixture
def model():
    return small_models.model(MODEL).to(DEVICE)


@pytest.fixture
def break_backends(monkeypatch):
    made = backends._new_backend
    backends._log_once.cache_clear()
    return lambda place, *names: monkeypatch.setattr(
        backends, "_new_backend", broken(place, names, made)
    )


def test_the_first_backend_is_used_where_it_works(model):
    opened = open_backend(model, 3, backend=ALL)
    assert (opened.name, opened.fallbacks) == ("cuda", ())
    assert len(opened.slots.images) == 3
    assert (opened.slots.state.position == MODEL.bytes).all()


@pytest.mark.parametrize("place", PLACES)
def test_a_backend_that_fails_anywhere_is_followed_by_the_next_and_one_line_says_why(
    model, break_backends, caplog, place
):
    break_backends(place, "cuda")
    with caplog.at_level(logging.WARNING):
        opened = open_backend(model, 3, backend="cuda,eager")
    assert opened.name == "eager"
    (fallback,) = opened.fallbacks
    assert fallback.startswith(f"cuda: {PLACES[place]}")
    assert "\n" not in fallback
    assert [record.message for record in caplog.records if record.name == "scanline.model"] == [
        f"the backend cuda is not used: {fallback.removeprefix('cuda: ')}"
    ]


def names(fallbacks):
    return [fallback.partition(":")[0] for fallback in fallbacks]


def test_torch_is_used_where_no_kernel_of_ours_works(model, break_backends):
    break_backends("warm-up", *TRITON)
    generator = Generator(model, 3, backend=ALL)
    assert (generator.backend_name, names(generator.fallbacks)) == ("eager", [*TRITON])


def test_where_programs_round_apart_narrow_ones_are_used(model, monkeypatch):
    multiply = cuda_step.linear

    def rounded_up(x, weight, bias, out, *how):
        """As if several rows had wide programs, in which the last bit of each result is another."""
        multiply(x, weight, bias, out, *how)
        if NARROW not in how and len(x) > 1:
            out.mul_(1 + torch.finfo(torch.float32).eps)

    monkeypatch.setattr(cuda_step, "linear", rounded_up)
    generator = Generator(model, 2, backend="cuda,cuda-narrow,eager")
    assert generator.backend_name == "cuda-narrow"
    assert "narrow programs" in generator.backend.name
    assert "narrow programs" in generator.backend.build, (
        "a seed's images are others, and so is the digest"
    )
    (fallback,) = generator.fallbacks
    assert fallback.endswith("of an image depend on whether 1 or 2 are in flight")


@NATIVE
def test_the_cpu_is_used_where_no_gpu_works(model, break_backends):
    break_backends("construction", *TRITON, "eager")
    opened = open_backend(
        model, 3, backend=None if DEVICE == "cuda" else ",".join((*TRITON, "cpu"))
    )
    assert opened.name == opened.model.device.type == "cpu"
    assert {*names(opened.fallbacks)} >= {*TRITON}


def test_the_only_backend_asked_for_is_used_or_an_error(model, break_backends):
    """And where none of several works one sentence names all reasons."""
    break_backends("warm-up", "cuda-unchained")
    assert open_backend(model, 1, backend="eager").name == "eager"
    with pytest.raises(
        ValueError, match=r"^the backend cuda-unchained: RuntimeError: out of resource: [^\n]+$"
    ):
        open_backend(model, 3, backend="cuda-unchained")
    break_backends("construction", "cuda", "cuda-unchained")
    with pytest.raises(
        ValueError, match=r"^no backend works here: cuda: .*; cuda-unchained: [^\n]*$"
    ):
        open_backend(model, 3, backend="cuda,cuda-unchained")


@pytest.mark.parametrize("backend", ["cuda", *BACKENDS])
def test_slots_that_do_not_fit_are_one_sentence_with_numbers(model, backend):
    """And no reason for another backend, on which they would fit no better."""
    sentence = r"^1,000,000,000,000 slots of \d+ bytes, and .* do not fit into the [\d,]+ bytes that are free on the"
    with pytest.raises(ValueError, match=rf"{sentence} (cpu|cuda); at most about [\d,]+ slots do$"):
        open_backend(model, 10**12, backend=f"{backend},eager")


def test_no_memory_for_a_prefill_is_the_same_sentence(model, monkeypatch):
    def fail(backend, pool):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr(CudaBackend, "warm_up", fail)
    with pytest.raises(
        NoRoomError, match=r"^7 slots of \d+ bytes, and the buffers of a step and a prefill, do not"
    ):
        open_backend(model, 7, backend=ALL)


@NATIVE
def test_backends_without_the_precision_are_not_tried(model, break_backends):
    break_backends("construction", "eager")
    assert open_backend(model, 1, precision_name="int8", backend="eager,cpu").name == "cpu"


@pytest.mark.skipif(DEVICE == "cuda", reason="the reasons of a machine with a GPU are others")
def test_a_cpu_without_our_library_has_torch_and_a_reason(monkeypatch):
    monkeypatch.setattr(cpu_kernels, "unavailable_reason", lambda: "it was not compiled")
    opened = open_backend(small_models.model(MODEL), 1)
    assert (opened.name, opened.fallbacks) == ("eager", ("cpu: it was not compiled",))
    with pytest.raises(ValueError, match=r"^the backend cpu: it was not compiled$"):
        open_backend(small_models.model(MODEL), 1, backend="cpu")


def test_opening_a_backend_draws_no_random_numbers(model):
    """A training evaluates its model between updates, and must draw the same images afterwards."""
    before = torch.get_rng_state()
    open_backend(model, 1, backend="eager")
    assert torch.equal(torch.get_rng_state(), before)
