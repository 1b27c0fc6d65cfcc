"""Prefill of known bytes by the kernels of a step, several positions of many images at a time: the products take a row
for each position, the recurrence runs through them in order.

The arithmetic is the step's: no row of a product depends on the others, and the recurrence adds position by position.
So a prefix, a scored image and a painted one have the same bits, whatever is prefilled together or in chunks. An
image's rows beyond its own end are masked as empty slots are.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from scanline.kernels.categorical.reference import range_bits
from scanline.kernels.causal_conv.triton import Norm, causal_conv_sequence
from scanline.kernels.pixel_logistics import PixelLogistics
from scanline.kernels.step.fused_triton import fused_recurrent_step
from scanline.kernels.step.sequence_triton import fused_recurrent_sequence
from scanline.model.backends.cuda_step import Buffers, KernelSequence
from scanline.model.backends.pending import to_device
from scanline.model.backends.prefill_batch import PrefillBatch
from scanline.model.backends.slots import DECODER, WEIGHING, SlotPool
from scanline.model.state import NUMBERS, State


class KernelPrefill:
    """Prefill known bytes with the kernels and in the buffers of a step; what else it needs is allocated here.

    `images` of them are prefilled at once, and as many positions of each as the buffers have rows for.
    """

    def __init__(self, kernels: KernelSequence, buffers: Buffers, images: int) -> None:
        self.kernels, self.buffers, self.config, self.images = kernels, buffers, kernels.config, images
        self.device = buffers.slots.device
        rows, size = len(buffers.slots), self.config.step_bytes
        assert images <= rows
        # The sampling kernel gives the cost of known bytes. To it, each row is an image of one step.
        self.steps = _known_steps(rows, size, self.device)
        self.row = torch.arange(rows, device=self.device)
        self.costs = torch.zeros(rows, size, dtype=torch.float64, device=self.device)
        self.intervals = torch.zeros(rows, size, 2, dtype=torch.int32, device=self.device)
        self.in_one_launch = True  # whether the recurrence of all positions is one launch, or one for each

    def run(self, batch: PrefillBatch) -> torch.Tensor:
        """See Backend.prefill."""
        state, count, size = batch.state, len(batch.images), self.config.step_bytes
        start, end, until = batch.start, int(batch.stops.max()), to_device(batch.stops, self.device)
        if start is None:
            positions = state.position.cpu().numpy()
            start = int(min(positions[positions < batch.stops], default=end))
        whole = size == 1 or not (start % size or (batch.stops % size).any())
        if batch.images.shape[1] != self.config.bytes or end > batch.images.shape[1] or not whole:
            raise ValueError(f"cannot run bytes {start} to {end} of images of {batch.images.shape[1]} bytes")
        bits = torch.zeros(count, end, dtype=torch.float64, device=self.device)
        for first in range(0, count, self.images):
            some = slice(first, min(count, first + self.images))
            part = state.part(some.start, some.stop)
            own = part.map(torch.Tensor.contiguous, part.position)  # copies, if there are more images
            images, labels, tolerances = batch.images[some].contiguous(), batch.labels[some], batch.tolerances[some]
            reach = size * (len(self.row) // len(part.position))
            for begin in range(start, end, reach):
                chunk = bits[some, begin : begin + reach]
                intervals = batch.intervals
                part_intervals = None if intervals is None else intervals[some, begin : begin + chunk.shape[1]]
                self._prefill_chunk(images, own, until[some], labels, begin, chunk, part_intervals)
                self._widen(images, own, until[some], tolerances, begin, chunk)
            if count > self.images:
                for name in NUMBERS:
                    getattr(part, name).copy_(getattr(own, name))
        state.position.copy_(torch.maximum(state.position, until))
        return bits

    def one_launch_is_exact(self, state_dtype: torch.dtype, deferred: int) -> bool:
        """Return whether the recurrence of many positions in one launch has the bits of a launch for each, on this
        device: both are compiled from the same functions, each on its own."""
        config, device, batch = self.config, self.device, 2
        steps, how = 4 * (deferred + 1) - 1, (config.step_bytes, config.feature_map)  # the last are all deferred
        width = config.heads * (2 * config.key_width + config.value_width)
        projected = torch.randn(steps * batch, width, generator=torch.Generator().manual_seed(0)).to(device)
        state = State.zeros(replace(config, layers=1), batch, device, state_dtype, deferred)
        own, images = state.copy(), torch.arange(batch, device=device)
        at = torch.arange(steps, device=device).repeat_interleave(batch) * config.step_bytes
        arrays = state.s[0], state.z[0], state.deferred[0]
        y = fused_recurrent_sequence(projected, *arrays, at, 0 * images, 0 * images + steps, *how)
        each = [
            fused_recurrent_step(part, own.s[0], own.z[0], own.deferred[0], position, images, *how)
            for part, position in zip(projected.split(batch), at.split(batch), strict=True)
        ]
        same = (torch.equal(getattr(own, name), getattr(state, name)) for name in NUMBERS)
        return torch.equal(torch.cat(each), y) and all(same)

    def _prefill_chunk(
        self,
        images: torch.Tensor,
        state: State,
        until: torch.Tensor,
        labels: torch.Tensor,
        begin: int,
        bits: torch.Tensor,
        intervals: torch.Tensor | None,
    ) -> None:
        """Run the bytes from `begin` on whose costs fit into bits [B, n], and their `intervals` [B, n, 2] where they
        are wanted, of each image from its position to until [B] - 1; row i B + b is step i of image b."""
        batch, size = len(images), self.config.step_bytes
        steps = bits.shape[1] // size
        buffers, row = self.buffers.part(0, batch * steps), self.row[: batch * steps]

        # Rows before an image's position or beyond its end are as slots that are done.
        image, at = row % batch, begin + size * (row // batch)
        live = (at >= state.position[image]) & (at < until[image])
        buffers.slots.copy_(torch.where(live, image, -1))
        self.kernels.input.run(images, state.position, labels, buffers, at)
        first, last = (((byte - begin) // size).clamp(0, steps) for byte in (state.position, until))

        def conv(number: int, conv_weight: torch.Tensor, norm: Norm | None) -> None:
            causal_conv_sequence(
                buffers.x, conv_weight, buffers.active, at, state.conv_state[number], self.config.channels,
                buffers.convolved, norm, buffers.moments, self.kernels.chained,
            )  # fmt: skip

        self.kernels.predict(buffers, self._recurrence(state, buffers, at, first, last), conv)

        # From here on, a row is an image of its own.
        known = self.steps.part(0, batch * steps)
        known.bits.zero_()
        known.state.position.zero_()
        values = images[:, begin : begin + bits.shape[1]]
        known.images.copy_(values.view(batch, steps, size).transpose(0, 1).flatten(0, 1))
        buffers.active.copy_(torch.where(live, row, -1))
        costs = self.costs[: batch * steps].zero_()
        by_byte = isinstance(self.kernels.distribution, PixelLogistics)
        self.kernels.sample(known, buffers, costs if by_byte else None)
        costs = costs if by_byte else known.bits
        bits.copy_(costs.view(steps, batch, size).transpose(0, 1).flatten(1))
        if intervals is not None:
            found = self.intervals[: batch * steps]
            by_image = found.view(steps, batch, size, 2).transpose(0, 1)
            by_image.copy_(intervals.unflatten(1, (steps, size)))  # what is not run stays
            self.kernels.write_intervals(known.images, buffers, found)
            intervals.copy_(by_image.flatten(1, 2))

    def _widen(
        self,
        images: torch.Tensor,
        state: State,
        until: torch.Tensor,
        tolerances: np.ndarray,
        begin: int,
        bits: torch.Tensor,
    ) -> None:
        """Compute the costs of the chunk that was just run anew, IN PLACE, of images with a tolerance: on the host,
        since few requests have one."""
        if not tolerances.any():
            return
        wide = torch.from_numpy(np.flatnonzero(tolerances)).to(self.device)
        batch, steps = bits.shape
        parameters = self.buffers.parameters[: batch * steps].view(steps, batch, -1).transpose(0, 1)[wide]
        values = images[wide, begin : begin + steps]
        found = range_bits(parameters.cpu().numpy(), values.cpu().numpy(), tolerances[tolerances > 0])
        at = torch.arange(begin, begin + steps, device=self.device)
        live = (at >= state.position[wide, None]) & (at < until[wide, None])
        bits[wide] = torch.where(live, torch.from_numpy(found).to(self.device), bits[wide])

    def _recurrence(
        self, state: State, buffers: Buffers, at: torch.Tensor, first: torch.Tensor, last: torch.Tensor
    ) -> Callable[[int], None]:
        """Return what runs the recurrence of a layer, over steps first..last-1 [B] of the rows in `buffers`, which are
        those of the bytes `at`."""
        batch, how = len(first), (self.config.step_bytes, self.config.feature_map)

        def sequence(i: int) -> None:
            arrays = state.s[i], state.z[i], state.deferred[i]
            fused_recurrent_sequence(buffers.projected, *arrays, at, first, last, *how, buffers.attended)

        def steps(i: int) -> None:
            arrays = state.s[i], state.z[i], state.deferred[i]
            for begin in range(0, len(buffers.slots), batch):
                part, position = buffers.part(begin, begin + batch), at[begin : begin + batch]
                # Not chained: a chained launch loads its states while the one before may still write them.
                fused_recurrent_step(part.projected, *arrays, position, part.active, *how, part.attended, chained=False)

        return sequence if self.in_one_launch else steps


def _known_steps(count: int, size: int, device: torch.device) -> SlotPool:
    """Return slots whose images are one step of known bytes, without states."""
    numbers = [torch.zeros(count, dtype=torch.int64, device=device) for _ in range(3)]
    nothing = torch.zeros(0, count, device=device)
    return SlotPool(
        State(nothing, nothing, numbers[0], nothing, nothing),
        images=torch.zeros(count, size, dtype=torch.uint8, device=device),
        known=torch.ones(count, size, dtype=torch.bool, device=device),
        bits=torch.zeros(count, dtype=torch.float64, device=device),
        seed=numbers[1],
        index=numbers[2],
        temperature=torch.ones(count, device=device),
        label=numbers[1],
        partner=numbers[1],
        guidance=torch.ones(count, device=device),
        **{name: torch.zeros(count, dtype=torch.float64, device=device) for name in (*WEIGHING, "known_bits")},
        code=torch.zeros(count, 0, dtype=torch.uint8, device=device),
        **dict.fromkeys(DECODER, torch.zeros(count, dtype=torch.int64, device=device)),
    )
