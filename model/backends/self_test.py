"""The self-test of a backend, on the model and on the machine that
it is to run on, before it is used.

Images of noise, every other step of which is known, are painted alone and in larger and larger
batches: each image must be the same, bit for bit. Then the network in plain torch operations on the
CPU runs over the bytes that were painted, and must find the same states and the same cost, and draw
nearly all of the same bytes; `prefill` likewise. The comparison goes along the painted bytes, so
that a byte on the border of two values is one difference and not many. A backend that has the bits
of the cpu kernel is compared with that instead, bit for bit. Particles of made-up weights
must be chosen and resampled as they are on the CPU, a guided image must be that of the reference,
and images must be painted again from codes of the intervals that `prefill` finds.
"""

from contextlib import closing
from dataclasses import dataclass

import numpy as np
import torch

from scanline.kernels import LN2
from scanline.kernels.codec.coder import Decoder, encode
from scanline.kernels.philox import uniforms
from scanline.model.backends import particles
from scanline.model.backends.arrivals import Arrivals
from scanline.model.backends.backend import Backend
from scanline.model.backends.comparison import (
    WrongResultsError,
    assert_close,
    assert_same_slots,
)
from scanline.model.backends.cpu import CpuBackend
from scanline.model.backends.groups import Groups
from scanline.model.backends.prefill_batch import PrefillBatch
from scanline.model.backends.slots import ARRAYS, SlotPool
from scanline.model.base.precision import PRECISIONS
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


@dataclass(frozen=True)
class Expected:
    """What the reference computes along the images of an outcome."""

    states: dict[str, torch.Tensor]  # by the names of NUMBERS
    bits: torch.Tensor  # [n, bytes of all steps] float64
    other_bytes: int  # that it draws otherwise


@torch.inference_mode()
def run_self_test(backend: Backend, slots: SlotPool, reference: Transformer) -> None:
    """Raise WrongResultsError where the backend paints something else than
    `reference`, the same model on the CPU.

    All slots are free before and after it.
    """
    sizes = sorted({min(size, len(slots.images)) for size in SIZES})
    test = _Images(reference)
    outcomes = {size: test.painted(backend, slots, size) for size in sizes}
    most = sizes[-1]
    largest = outcomes[most]
    for size, outcome in outcomes.items():
        same_images = largest.part(len(outcome.images))
        for name, result in outcome.part(len(outcome.images)).items():
            if not torch.equal(result.nan_to_num(), same_images[name].nan_to_num()):
                raise WrongResultsError(
                    f"{name} of an image depend on whether {size} or {most} are in flight"
                )
    if backend.has_cpu_bits and not isinstance(backend, CpuBackend):
        test.compare_bits(largest, backend, slots)
    else:
        expected = test.expected(largest.images)
        test.compare_painted(largest, expected, backend)
        test.compare_prefilled(largest, expected, backend, slots)
        if reference.config.can_be_guided and len(slots.images) >= 2:
            test.compare_guided(backend, slots)
    test.compare_coded(largest.images, backend, slots)
    _compare_resampling(backend, slots)


class _Images:
    """The images of the self-test of one model."""

    def __init__(self, reference: Transformer) -> None:
        self.reference = reference
        self.config = reference.config
        self.steps = min(STEPS, self.config.steps)
        self.stop = self.config.first + self.steps * self.config.step_bytes
        generator = torch.Generator().manual_seed(SEED)
        shape = (IMAGES, self.config.bytes)
        self.noise = torch.randint(256, shape, dtype=torch.uint8, generator=generator)
        step = (torch.arange(self.config.bytes) - self.config.first) // self.config.step_bytes
        self.known = (step % 2) == 1  # [N]

    def arrivals(self, count: int, slots: SlotPool) -> Arrivals:
        """Return images of unknown bytes for slots 0 to count - 1, all with one seed."""
        arrivals = Arrivals.empty(count, self.config.bytes, pinned=not slots.on_host)
        arrivals.slots.copy_(torch.arange(count))
        arrivals.seed.fill_(SEED)
        arrivals.position.fill_(self.config.first)
        arrivals.temperature.fill_(1.0)
        return arrivals

    def painted(self, backend: Backend, slots: SlotPool, size: int) -> Outcome:
        """Paint images 0 to size - 1 at once. Which slot an image has depends on how many there
        are."""
        index = (torch.arange(size) + size // 2) % size
        arrivals = self.arrivals(size, slots)
        arrivals.index.copy_(index)
        arrivals.temperature.copy_(self.temperature(index))
        arrivals.label.copy_(self.label(index))
        arrivals.images.copy_(self.noise[index % IMAGES])
        arrivals.known.copy_(self.known)
        backend.place(slots, arrivals)
        numbers = np.arange(size)
        for steps in (self.steps // 3, self.steps - self.steps // 3):
            backend.advance(slots, numbers, steps).wait()
        if not (slots.state.position[:size] == self.stop).all():
            raise WrongResultsError(f"not all of {size} images have moved by {self.steps} steps")
        first = index.argsort()[:IMAGES].numpy()  # the slots of images 0, 1, ...
        fetched = backend.fetch(slots, first).wait()
        state = slots.state.chosen(torch.from_numpy(first)).complete(self.config.step_bytes)
        outcome = Outcome(
            images=torch.from_numpy(fetched.images),
            bits=torch.from_numpy(fetched.bits),
            known_bits=slots.known_bits[first].cpu(),
            s=state.s.cpu(),
            z=state.z.cpu(),
            conv_state=state.conv_state.cpu(),
        )
        slots.empty_slots(numbers)
        return outcome

    def compare_bits(self, outcome: Outcome, backend: Backend, slots: SlotPool) -> None:
        """Raise WrongResultsError where a bit is not the cpu kernel's."""
        count = len(outcome.images)
        with closing(CpuBackend(self.reference, precision=PRECISIONS["int8"])) as cpu:
            pool = SlotPool.empty(self.config, max(2, count))
            law = self.painted(cpu, pool, count)
            pairs = [(law.part(count), outcome.part(count))]
            right = self.read(outcome.images, cpu, pool)
            pairs.append((right, self.read(outcome.images, backend, slots)))
            if self.config.can_be_guided and len(slots.images) >= 2:
                guided = {"guided bytes": self.guided(backend, slots)}
                pairs.append(({"guided bytes": self.guided(cpu, pool)}, guided))
        for expected, found in pairs:
            for name, numbers in expected.items():
                if not torch.equal(numbers.nan_to_num(), found[name].nan_to_num()):
                    raise WrongResultsError(f"{name} are not those of the cpu kernel")

    def expected(self, images: torch.Tensor) -> Expected:
        """Return what the reference computes along painted images [n, N], and how many bytes it
        draws otherwise.

        It runs over the painted bytes, not its own, so that one other byte is one difference.
        """
        count = len(images)
        size = self.config.step_bytes
        distribution = self.reference.distribution
        index = torch.arange(count)
        seed = torch.full((count,), SEED)
        state = State.zeros(self.config, count)
        bits = []
        other_bytes = 0
        for _ in range(self.steps):
            places = state.position.unsqueeze(1) + torch.arange(size)  # [n, bytes of a step]
            parameters = self.reference.step(images, state, self.label(index))
            values = images.gather(1, places)
            bits.append(-distribution.log_prob(parameters, values) / LN2)
            known = self.known.expand(count, -1).gather(1, places)
            draws = torch.stack([uniforms(seed, index, place) for place in places.unbind(1)], dim=1)
            drawn = distribution.sample(parameters, draws, self.temperature(index), values, known)
            other_bytes += int((drawn != values).sum())
        states = {name: getattr(state, name) for name in NUMBERS}
        return Expected(states, torch.cat(bits, dim=1).double(), other_bytes)

    def compare_painted(self, outcome: Outcome, expected: Expected, backend: Backend) -> None:
        """Raise WrongResultsError where known bytes were painted over, or many other bytes, states
        or costs are not those of the reference."""
        count = len(outcome.images)
        bits = expected.bits
        if not torch.equal(outcome.images[:, self.known], self.noise[:count, self.known]):
            raise WrongResultsError("known bytes were painted over")
        if expected.other_bytes > _other_bytes(backend) * bits.numel():
            raise WrongResultsError(
                f"{expected.other_bytes} of {bits.numel()} bytes are not those that the reference"
                " draws"
            )
        known = self.known[self.config.first : self.stop]
        sums = {"bits": bits.sum(dim=1), "known bits": bits[:, known].sum(dim=1)}
        assert_close(expected.states | sums, outcome.part(count), _bound(backend), "painting")

    def compare_prefilled(
        self, outcome: Outcome, expected: Expected, backend: Backend, slots: SlotPool
    ) -> None:
        """Raise WrongResultsError where a prefill of the painted bytes ends in other states, or at
        other costs."""
        result = self.read(outcome.images, backend, slots)
        reference = expected.states | {"bits": expected.bits}
        assert_close(reference, result, _bound(backend), "reading")

    def read(
        self, images: torch.Tensor, backend: Backend, slots: SlotPool
    ) -> dict[str, torch.Tensor]:
        """Return the states after a prefill of images [n, N], by the names of NUMBERS, and the
        bits of each of their bytes."""
        count = len(images)
        device = slots.images.device
        state = State.zeros(self.config, count, device, backend.state_dtype, backend.deferred)
        stops = np.full(count, self.stop)
        labels = self.label(torch.arange(count)).to(device)
        batch = PrefillBatch.of(images.to(device), state, stops, labels)
        bits = backend.prefill(batch).cpu()[:, self.config.first :]
        state = state.complete(self.config.step_bytes)
        return {name: getattr(state, name).cpu() for name in NUMBERS} | {"bits": bits}

    def guided(self, backend: Backend, slots: SlotPool) -> torch.Tensor:
        """Return the images [2, N] uint8 of a guided image that was painted in slots 0 and 1."""
        pair = np.arange(2)
        arrivals = self.arrivals(2, slots)
        arrivals.label.copy_(torch.tensor([1, 0]))
        arrivals.partner.copy_(torch.tensor([1, -1]))
        arrivals.guidance.fill_(GUIDANCE)
        backend.place(slots, arrivals)
        backend.advance(slots, pair, self.steps).wait()
        images = torch.from_numpy(backend.fetch(slots, pair).wait().images)
        slots.empty_slots(pair)
        return images

    def compare_guided(self, backend: Backend, slots: SlotPool) -> None:
        """Raise WrongResultsError where a guided image has other bytes than the reference draws."""
        images = self.guided(backend, slots)
        labels = torch.tensor([1, 0])
        state = State.zeros(self.config, 2)
        size = self.config.step_bytes
        seed = torch.tensor([[SEED]])
        index = torch.tensor([[0]])
        guidance = torch.tensor([GUIDANCE])
        unknown = torch.zeros(1, size, dtype=torch.bool)
        other_bytes = 0
        for position in range(self.config.first, self.stop, size):
            with_class, without = self.reference.step(images, state, labels).split(1)
            places = torch.arange(position, position + size)
            values = images[:1, places]
            drawn = self.reference.distribution.sample_guided(
                with_class,
                without,
                guidance,
                uniforms(seed, index, places),
                torch.ones(1),
                values,
                unknown,
            )
            other_bytes += int((drawn != values).sum())
        if not torch.equal(images[0], images[1]):
            raise WrongResultsError("the two slots of a guided image have different bytes")
        count = self.steps * size
        if other_bytes > _other_bytes(backend) * count:
            raise WrongResultsError(
                f"{other_bytes} of {count} guided bytes are not those that the reference draws"
            )

    def compare_coded(self, images: torch.Tensor, backend: Backend, slots: SlotPool) -> None:
        """Raise WrongResultsError where images [n, N] are not painted again from their codes."""
        count = min(CODED, len(images))
        images = images[:count]
        device = slots.images.device
        first = self.config.first
        labels = self.label(torch.arange(count))

        # Their codes, by the intervals that a prefill finds.
        intervals = torch.zeros(count, self.stop, 2, dtype=torch.int32, device=device)
        state = State.zeros(self.config, count, device, backend.state_dtype, backend.deferred)
        stops = np.full(count, self.stop)
        batch = PrefillBatch.of(
            images.to(device), state, stops, labels.to(device), intervals=intervals
        )
        backend.prefill(batch)
        decoders = []
        for image_intervals in intervals[:, first:].tolist():
            decoders.append(Decoder(encode(map(tuple, image_intervals))))

        arrivals = self.arrivals(count, slots)
        arrivals.label.copy_(labels)
        arrivals.images[:, :first] = images[:, :first]
        backend.place(slots, arrivals)
        numbers = np.arange(count)
        backend.put_codes(slots, numbers, decoders)
        backend.advance(slots, numbers, self.steps).wait()
        painted = torch.from_numpy(backend.fetch(slots, numbers).wait().images)
        slots.empty_slots(numbers)
        if not torch.equal(painted[:, : self.stop], images[:, : self.stop]):
            raise WrongResultsError("images are not painted again from their codes")

    def temperature(self, index: torch.Tensor) -> torch.Tensor:
        """Of images [n]: 0.5, 1, 1.5, 2, 0.5 ... [n] float32."""
        return 0.5 + 0.5 * (index % 4).float()

    def label(self, index: torch.Tensor) -> torch.Tensor:
        """Of images [n]: all labels of the model in turn, [n] int64."""
        return index % (len(self.config.classes) + 1)


def _other_bytes(backend: Backend) -> float:
    """Return the share of bytes that may not be what the reference draws."""
    if backend.state_dtype == torch.float32:
        return OTHER_BYTES
    return OTHER_BYTES_16_BITS


def _bound(backend: Backend) -> float:
    """Return the largest difference of states and costs."""
    if backend.state_dtype == torch.float32:
        return BOUND
    return BOUND_16_BITS


def _compare_resampling(backend: Backend, slots: SlotPool) -> None:
    """Raise WrongResultsError where the particles of two images, in slots that are
    free, become others than on the CPU. What the slots hold are the images and states
    of those that were painted there."""
    images = 2 if len(slots.images) >= 4 else 1
    count = min(2 * PARTICLES, len(slots.images)) // images * images
    numbers = np.arange(count)[::-1].copy()  # the leaders are not in the first slots
    groups = Groups(numbers.reshape(images, -1), np.arange(images))
    weights = torch.tensor([(17 * slot) % 40 for slot in range(count)])  # made up, in bits
    slots.evidence_bits[:count] = 0
    expected = _on_cpu(slots.part(0, count))

    _set_known_bits((slots, expected), weights)
    particles.choose(expected, groups)
    backend.choose(slots, groups)
    assert_same_slots(expected, slots.part(0, count), "choice")

    _set_known_bits((slots, expected), weights)
    particles.resample(expected, groups, particles.copy_slots)
    backend.resample(slots, groups)
    assert_same_slots(expected, slots.part(0, count), "resampling")


def _set_known_bits(pools: tuple[SlotPool, ...], bits: torch.Tensor) -> None:
    for pool in pools:
        pool.known_bits[: len(bits)] = bits.to(pool.known_bits)


def _on_cpu(pool: SlotPool) -> SlotPool:
    """Return a copy of slots on the CPU."""
    state = State(**{name: array.cpu().clone() for name, array in vars(pool.state).items()})
    arrays = {name: getattr(pool, name).cpu().clone() for name in ARRAYS}
    return SlotPool(state, **arrays)
