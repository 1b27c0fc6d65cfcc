"""The self-test of a backend, on the model and on the machine that
it is to run on, before it is used.

Images of noise, every other step of which is known, are painted alone and in larger and larger
batches: each image must be the same, bit for bit. Then the network in plain torch operations on the
CPU runs over the bytes that were painted, and must find the same states and the same cost, and draw
nearly all of the same bytes; `prefill` likewise. The comparison goes along the painted bytes, so
that a byte on the border of two values is one difference and not many. Particles of made-up weights
must be chosen and resampled as they are on the CPU, a guided image must be that of the reference,
and images must be painted again from codes of the intervals that `prefill` finds.
"""

from dataclasses import dataclass

import numpy as np
import torch

from scanline.kernels import LN2
from scanline.kernels.codec.coder import Decoder, encode
from scanline.kernels.philox import uniforms
from scanline.model.backends import particles
from scanline.model.backends.arrivals import Arrivals
from scanline.model.backends.backend import Backend
from scanline.model.backends.particles import Groups
from scanline.model.backends.prefill_batch import PrefillBatch
from scanline.model.backends.slots import ARRAYS, WEIGHING, SlotPool
from scanline.model.base.state import NUMBERS, State
from scanline.model.network.transformer import Transformer

IMAGES = 4  # that are compared with the reference
STEPS = 24  # of each
SIZES = (1, 64, 600, 4096)  # images in flight at once, as far as there are slots
SEED = 1
GUIDANCE = 2.0  # of the guided image
CODED = 2  # images with codes, as far as there are slots
PARTICLES = 4  # of each image that is resampled, as far as there are slots
# Largest difference, relative to a number of the reference and the root mean square of all. On
# the models of the zoo, float32 sums in another order are off by 1.7e-5; those of tensor
# cores, which truncate, are within the bound (H200). States that are rounded to bfloat16 in
# every step are off by 0.017 on both models.
BOUND = 1e-3
BOUND_16_BITS = 0.05
# of the bytes may not be what the reference draws
OTHER_BYTES = 1 / 8
OTHER_BYTES_16_BITS = 1 / 2


class WrongResultsError(ArithmeticError):
    """The backend computes something else than it should; the message says what, without a full
    stop."""


@dataclass(frozen=True)
class Outcome:
    """The first images of a run, on the CPU."""

    images: torch.Tensor  # [n, N] uint8
    bits: torch.Tensor  # [n] float64
    known_bits: torch.Tensor  # [n] float64
    s: torch.Tensor  # [L, n, H, C, M]
    z: torch.Tensor  # [L, n, H, C]
    conv_state: torch.Tensor  # [E, n, R, D]

    def part(self, images: int) -> dict[str, torch.Tensor]:
        """Return the tensors of the first of them, by what they are."""
        return {
            "bytes": self.images[:images],
            "bits": self.bits[:images],
            "known bits": self.known_bits[:images],
            "s": self.s[:, :images],
            "z": self.z[:, :images],
            "conv_state": self.conv_state[:, :images],
        }


@torch.inference_mode()
def run_self_test(backend: Backend, slots: SlotPool, reference: Transformer) -> None:
    """Raise WrongResultsError where the backend paints something else than
    `reference`, the same model on the CPU.

    All slots are free before and after it.
    """
    sizes = sorted({min(size, len(slots.images)) for size in SIZES})
    test = _Images(reference)
    outcomes = [test.painted(backend, slots, size) for size in sizes]
    for size, outcome in zip(sizes, outcomes[:-1], strict=False):
        largest = outcomes[-1].part(len(outcome.images))
        for name, result in outcome.part(len(outcome.images)).items():
            if not torch.equal(result.nan_to_num(), largest[name].nan_to_num()):
                raise WrongResultsError(
                    f"{name} of an image depend on whether {size} or {sizes[-1]} are in flight"
                )
    test.compare(outcomes[-1], backend, slots)
    test.compare_coded(outcomes[-1].images, backend, slots)
    if reference.config.can_be_guided and len(slots.images) >= 2:
        test.compare_guided(backend, slots)
    _compare_resampling(backend, slots)


class _Images:
    """The images of the self-test of one model."""

    def __init__(self, reference: Transformer) -> None:
        self.reference = reference
        self.config = reference.config
        self.steps = min(STEPS, self.config.steps)
        self.stop = self.config.first + self.steps * self.config.step_bytes
        noise = torch.Generator().manual_seed(SEED)
        self.given = torch.randint(
            256, (IMAGES, self.config.bytes), dtype=torch.uint8, generator=noise
        )
        step = (torch.arange(self.config.bytes) - self.config.first) // self.config.step_bytes
        self.known = step % 2 == 1  # [N]

    def painted(self, backend: Backend, slots: SlotPool, size: int) -> Outcome:
        """Paint images 0 to size - 1 at once. Which slot an image has depends on how many there
        are."""
        index = (torch.arange(size) + size // 2) % size
        arrivals = Arrivals.empty(size, self.config.bytes, pinned=not slots.on_host)
        arrivals.slots.copy_(torch.arange(size))
        arrivals.seed.fill_(SEED)
        arrivals.index.copy_(index)
        arrivals.position.fill_(self.config.first)
        arrivals.temperature.copy_(self.temperature(index))
        arrivals.label.copy_(self.label(index))
        arrivals.images.copy_(self.given[index % IMAGES])
        arrivals.known.copy_(self.known)
        backend.place(slots, arrivals)
        numbers = np.arange(size)
        for steps in (self.steps // 3, self.steps - self.steps // 3):
            backend.advance(slots, numbers, steps).wait()
        if not (slots.state.position[:size] == self.stop).all():
            raise WrongResultsError(f"not all of {size} images have moved by {self.steps} steps")
        first = index.argsort()[:IMAGES].numpy()
        fetched = backend.fetch(slots, first).wait()
        state = slots.state.chosen(torch.from_numpy(first)).complete(self.config.step_bytes)
        states = (array.cpu() for array in (state.s, state.z, state.conv_state))
        known_bits = slots.known_bits[first].cpu()
        slots.empty_slots(numbers)
        return Outcome(
            torch.from_numpy(fetched.images), torch.from_numpy(fetched.bits), known_bits, *states
        )

    def compare(self, outcome: Outcome, backend: Backend, slots: SlotPool) -> None:
        """Raise WrongResultsError where the reference finds something else along the painted bytes."""
        count = len(outcome.images)
        size = self.config.step_bytes
        state = State.zeros(self.config, count)
        bits = torch.zeros(count, self.stop - self.config.first, dtype=torch.float64)
        index = torch.arange(count)
        other = 0  # bytes than those that the reference draws
        # The reference runs over the painted bytes, not its own, so
        # that one other byte is one difference.
        for step in range(self.steps):
            places = state.position.unsqueeze(1) + torch.arange(size)  # [n, bytes of a step]
            parameters = self.reference.step(outcome.images, state, self.label(index))
            values = outcome.images.gather(1, places)
            bits[:, step * size : (step + 1) * size] = (
                -self.reference.distribution.log_prob(parameters, values) / LN2
            )
            draws = torch.stack(
                [uniforms(torch.full((count,), SEED), index, at) for at in places.unbind(1)], dim=1
            )
            known = self.known.expand(count, -1).gather(1, places)
            drawn = self.reference.distribution.sample(
                parameters, draws, self.temperature(index), values, known
            )
            other += int((drawn != values).sum())

        # Painting: known bytes are kept, nearly all others are those that the
        # reference draws, states and costs agree.
        given = self.given[index][:, self.known]
        if not torch.equal(outcome.images[:, self.known], given):
            raise WrongResultsError("known bytes were painted over")
        if other > _other_bytes(backend) * bits.numel():
            raise WrongResultsError(
                f"{other} of {bits.numel()} bytes are not those that the reference draws"
            )
        bound = BOUND if backend.state_dtype == torch.float32 else BOUND_16_BITS
        states = {name: getattr(state, name) for name in NUMBERS}
        expected = states | {"bits": bits.sum(dim=1)}
        expected["known bits"] = bits[:, self.known[self.config.first : self.stop]].sum(dim=1)
        _assert_close(expected, outcome.part(count), bound, "painting")

        # Prefilling the same bytes ends in the same states, at the same costs.
        device = slots.images.device
        prefilled = State.zeros(self.config, count, device, backend.state_dtype, backend.deferred)
        stops = np.full(count, self.stop)
        batch = PrefillBatch.of(
            outcome.images.to(device), prefilled, stops, self.label(index).to(device)
        )
        costs = backend.prefill(batch).cpu()[:, self.config.first :]
        prefilled = prefilled.complete(self.config.step_bytes)
        found = {name: getattr(prefilled, name).cpu() for name in NUMBERS}
        _assert_close(states | {"bits": bits}, found | {"bits": costs}, bound, "reading")

    def compare_guided(self, backend: Backend, slots: SlotPool) -> None:
        """Raise WrongResultsError where a guided image in slots 0 and 1 has other bytes than the
        reference draws."""
        pair = np.arange(2)
        arrivals = Arrivals.empty(2, self.config.bytes, pinned=not slots.on_host)
        arrivals.slots.copy_(torch.arange(2))
        arrivals.label.copy_(torch.tensor([1, 0]))
        arrivals.partner.copy_(torch.tensor([1, -1]))
        arrivals.position.fill_(self.config.first)
        arrivals.seed.fill_(SEED)
        arrivals.temperature.fill_(1.0)
        arrivals.guidance.fill_(GUIDANCE)
        backend.place(slots, arrivals)
        backend.advance(slots, pair, self.steps).wait()
        images = torch.from_numpy(backend.fetch(slots, pair).wait().images)
        slots.empty_slots(pair)
        state = State.zeros(self.config, 2)
        size = self.config.step_bytes
        weight = torch.tensor([GUIDANCE])
        distribution = self.reference.distribution
        bad = 0  # bytes
        for position in range(self.config.first, self.stop, size):
            with_class, without = self.reference.step(images, state, torch.tensor([1, 0])).split(1)
            draws = uniforms(
                torch.tensor([[SEED]]), torch.tensor([[0]]), torch.arange(position, position + size)
            )
            values = images[:1, position : position + size]
            known = torch.zeros(1, size, dtype=torch.bool)
            drawn = distribution.sample_guided(
                with_class, without, weight, draws, torch.ones(1), values, known
            )
            bad += int((drawn != values).sum())
        if not torch.equal(images[0], images[1]):
            raise WrongResultsError("the two slots of a guided image have different bytes")
        if bad > _other_bytes(backend) * self.steps * size:
            raise WrongResultsError(
                f"{bad} of {self.steps * size} guided bytes are not those that the reference draws"
            )

    def compare_coded(self, images: torch.Tensor, backend: Backend, slots: SlotPool) -> None:
        """Raise WrongResultsError where images [n, N] are not painted again from their codes."""
        count = min(CODED, len(images))
        numbers = np.arange(count)
        device = slots.images.device
        first = self.config.first
        intervals = torch.zeros(count, self.stop, 2, dtype=torch.int32, device=device)
        state = State.zeros(self.config, count, device, backend.state_dtype, backend.deferred)
        labels = self.label(torch.arange(count))
        stops = np.full(count, self.stop)
        given = images[:count].to(device)
        backend.prefill(
            PrefillBatch.of(given, state, stops, labels.to(device), intervals=intervals)
        )
        codes = [encode(map(tuple, of_image)) for of_image in intervals[:, first:].tolist()]
        arrivals = Arrivals.empty(count, self.config.bytes, pinned=not slots.on_host)
        arrivals.slots.copy_(torch.arange(count))
        arrivals.label.copy_(labels)
        arrivals.position.fill_(first)
        arrivals.temperature.fill_(1.0)
        arrivals.images[:, :first] = images[:count, :first]
        backend.place(slots, arrivals)
        backend.put_codes(slots, numbers, [Decoder(code) for code in codes])
        backend.advance(slots, numbers, self.steps).wait()
        painted = torch.from_numpy(backend.fetch(slots, numbers).wait().images)
        slots.empty_slots(numbers)
        if not torch.equal(painted[:, : self.stop], images[:count, : self.stop]):
            raise WrongResultsError("images are not painted again from their codes")

    def temperature(self, index: torch.Tensor) -> torch.Tensor:
        """Of images [n]: 0.5, 1, 1.5, 2, 0.5 ... [n] float32."""
        return 0.5 + 0.5 * (index % 4).float()

    def label(self, index: torch.Tensor) -> torch.Tensor:
        """Of images [n]: all labels of the model in turn, [n] int64."""
        return index % (len(self.config.classes) + 1)


def _other_bytes(backend: Backend) -> float:
    """Return the share of bytes that may not be what the reference draws."""
    return OTHER_BYTES if backend.state_dtype == torch.float32 else OTHER_BYTES_16_BITS


def _compare_resampling(backend: Backend, slots: SlotPool) -> None:
    """Raise WrongResultsError where the particles of two images, in slots that are
    free, become others than on the CPU. What the slots hold are the images and states
    of those that were painted there."""
    images = 2 if len(slots.images) >= 4 else 1
    count = min(2 * PARTICLES, len(slots.images)) // images * images
    groups = Groups(np.arange(count)[::-1].copy().reshape(images, -1), np.arange(images))
    slots.evidence_bits[:count] = 0
    expected = _on_cpu(slots.part(0, count))
    for what in ("choice", "resampling"):
        for pool in (slots, expected):
            pool.known_bits[:count] = torch.tensor([(17 * slot) % 40 for slot in range(count)]).to(
                pool.known_bits
            )
        if what == "choice":
            particles.choose(expected, groups)
            backend.choose(slots, groups)
        else:
            particles.resample(expected, groups, particles.copy_slots)
            backend.resample(slots, groups)
        _assert_same_slots(expected, _on_cpu(slots.part(0, count)), what)


def _on_cpu(pool: SlotPool) -> SlotPool:
    state = State(**{name: array.cpu().clone() for name, array in vars(pool.state).items()})
    return SlotPool(state, **{name: getattr(pool, name).cpu().clone() for name in ARRAYS})


def _assert_same_slots(expected: SlotPool, result: SlotPool, what: str) -> None:
    arrays = {
        name: (getattr(expected.state, name), getattr(result.state, name)) for name in NUMBERS
    }
    arrays |= {name: (getattr(expected, name), getattr(result, name)) for name in ARRAYS}
    for name, pair in arrays.items():
        right, computed = (array.nan_to_num() for array in pair)
        # Sums of logarithms may be rounded differently on a device; all that is copied may not.
        close = name in WEIGHING and torch.allclose(right, computed, rtol=1e-9, atol=1e-9)
        if not close and not torch.equal(right, computed):
            raise WrongResultsError(
                f"{what} of particles: {name.replace('_', ' ')} are not those of the reference"
            )


def _assert_close(
    expected: dict[str, torch.Tensor], result: dict[str, torch.Tensor], bound: float, what: str
) -> None:
    for name, reference in expected.items():
        # What the reference itself cannot compute, with the weights of a
        # training that diverges, says nothing.
        finite = reference.isfinite()
        if not finite.any():  # or there are none, as of a model that convolves nothing
            continue
        right = reference[finite].double()
        computed = result[name][finite].double()
        off = (right - computed).abs()
        size = right.square().mean().sqrt()
        if not (off <= bound * (size + right.abs())).all():  # NaN is not
            raise WrongResultsError(
                f"{what}: {name} is off by {off.max():.2g} where values are about {size:.2g}"
            )
