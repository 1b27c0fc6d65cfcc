"""The self-test passes every backend that computes the model, and no other."""

import pytest

from scanline.kernels import cpu as cpu_kernels
from scanline.model.backends.comparison import WrongResultsError
from scanline.model.backends.cpu import CpuBackend
from scanline.model.backends.eager import EagerBackend
from scanline.model.backends.self_test import run_self_test
from scanline.model.backends.slots import SlotPool
from tests.support import small_models
from tests.support.sweeps import and_slow

# more steps than the self-test takes
CONFIG = small_models.config(height=6, layers=1, **small_models.CLASSES)
SLOTS = 64


class FaultyBackend(EagerBackend):
    """A backend with a fault before or after its steps, or in what it reads."""

    def __init__(
        self,
        model,
        before=lambda slots: None,
        after=lambda slots: None,
        read=lambda bits: None,
    ):
        super().__init__(model)
        self.before = before
        self.after = after
        self.read = read

    def advance(self, pool, slots, steps):
        self.before(pool)
        pending = super().advance(pool, slots, steps)
        self.after(pool)
        return pending

    def prefill(self, batch):
        bits = super().prefill(batch)
        self.read(bits)
        return bits


OTHER_BYTES = "bytes are not those that the reference draws"
# before or after a step, or of what is read; and what is found
FAULTS = {
    "all are stopped": (
        "before",
        lambda s: s.state.position.fill_(CONFIG.bytes),
        "not all of 1 images have moved by",
    ),
    "another seed": ("before", lambda s: s.seed.add_(1), OTHER_BYTES),
    "nothing is known": ("before", lambda s: s.known.fill_(False), "known bytes were painted over"),
    "no labels": ("before", lambda s: s.label.zero_(), OTHER_BYTES),
    "no partners": ("before", lambda s: s.partner.zero_(), "of a guided image"),
    "scaled states": ("after", lambda s: s.state.s.mul_(1.01), "painting: s is off by"),
    "lost states": ("after", lambda s: s.state.z.fill_(float("nan")), OTHER_BYTES),
    "larger costs": ("after", lambda s: s.bits.add_(1), "painting: bits is off by"),
    "no costs of known bytes": (
        "after",
        lambda s: s.known_bits.zero_(),
        "painting: known bits is off by",
    ),
    "costs that depend on the batch": (
        "after",
        lambda s: s.bits.add_(1e-9 * (s.state.position < CONFIG.bytes).sum()),
        "bits of an image depend on whether 1 or 64 are in flight",
    ),
    "wrong costs of known bytes": (
        "read",
        lambda bits: bits.add_(0.1),
        r"reading: bits is off by 0\.1",
    ),
}


def proven(backend, model):
    slots = SlotPool.empty(model.config, SLOTS)
    run_self_test(backend, slots, model)
    return slots


@pytest.mark.parametrize(
    "variant", and_slow(["authors", "waves of pixels"], "plain", "strokes", *small_models.REST)
)
def test_backends_that_compute_the_model_pass_and_all_slots_are_free_afterwards(
    variant,
):
    model = small_models.model_of(variant, **small_models.CLASSES)
    backends = [EagerBackend(model)]
    backends += [CpuBackend(model, threads=1)] if cpu_kernels.available() else []
    for backend in backends:
        assert (proven(backend, model).state.position == model.config.bytes).all()


@pytest.mark.parametrize("kind", FAULTS)
def test_wrong_inputs_and_results_of_a_step_are_found(kind):
    when, fault, sentence = FAULTS[kind]
    model = small_models.model(CONFIG)
    with pytest.raises(WrongResultsError, match=sentence):
        proven(FaultyBackend(model, **{when: fault}), model)


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        ("resample", "resampling of particles: s are not those of the reference"),
        ("choose", "choice of particles: images are not those of the reference"),
        ("put_codes", "images are not painted again from their codes"),
    ],
)
def test_faults_of_particles_and_codes_are_found(act, sentence, monkeypatch):
    backend = EagerBackend(small_models.model(CONFIG))
    monkeypatch.setattr(backend, act, lambda *_: None)
    with pytest.raises(WrongResultsError, match=sentence):
        proven(backend, backend.model)


@pytest.mark.parametrize("slots", [1, 5])
def test_few_slots_are_enough(slots):
    model = small_models.model(CONFIG)
    run_self_test(CpuBackend(model, threads=1), SlotPool.empty(CONFIG, slots), model)


def test_of_weights_that_have_diverged_nothing_is_asked_that_the_reference_cannot_compute():
    model = small_models.model(CONFIG)
    model.head.bias.fill_(float("nan"))
    proven(EagerBackend(model), model)
