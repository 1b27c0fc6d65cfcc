"""Prefill of known bytes by the kernels of a step, several positions of many images at a
time: the products take a row for each position, the recurrence runs through them in order.
A pass is recorded as a CUDA graph.

The arithmetic is the step's: no row of a product depends on the others, and the recurrence adds
position by position. So a prefix, a scored image and a painted one have the same bits, whatever is
prefilled together or in chunks. An image's rows beyond its own end are masked as empty slots are,
and so are those of images that are not there.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from scanline.kernels.categorical.reference import range_bits
from scanline.kernels.causal_conv.triton import Norm, causal_conv_sequence
from scanline.kernels.pixel_logistics import PixelLogistics
from scanline.kernels.step.fused_triton import fused_recurrent_step
from scanline.kernels.step.ordered_triton import ordered_recurrence
from scanline.kernels.step.sequence_triton import fused_recurrent_sequence
from scanline.kernels.triton.known_rows import write_rows
from scanline.model.backends.cuda_graph import Replay, recorded
from scanline.model.backends.cuda_step import Buffers, KernelSequence
from scanline.model.backends.pending import to_device
from scanline.model.backends.prefill_batch import PrefillBatch
from scanline.model.backends.slots import ARRAYS, SlotPool
from scanline.model.base.state import NUMBERS, State


class KernelPrefill:
    """Prefill known bytes with the kernels and in the buffers of a step. Graphs
    hold addresses, so a pass reads images and states that are allocated here, and
    batches are copied into them and out.

    passes: how many images a pass has, ascending, and how many steps of each.
    """

    def __init__(
        self,
        kernels: KernelSequence,
        buffers: Buffers,
        passes: tuple[tuple[int, int], ...],
        state: State,
    ) -> None:
        self.kernels = kernels
        self.buffers = buffers
        self.config = kernels.config
        self.passes = passes
        self.device = device = buffers.slots.device
        self.most = passes[-1][0]
        rows = max(images * steps for images, steps in passes)
        size = self.config.step_bytes
        assert rows <= len(buffers.slots)
        # Of each image; `first` and `last` are the steps of a pass that it runs.
        self.state = state
        self.images = torch.zeros(self.most, self.config.bytes, dtype=torch.uint8, device=device)
        self.labels, self.stops, self.first, self.last = torch.zeros(
            4, self.most, dtype=torch.int64, device=device
        )
        # Of each row. The sampling kernel gives the cost of known bytes. To
        # it, each row is an image of one step.
        self.begin = torch.zeros(1, dtype=torch.int64, device=device)
        self.at, self.row = torch.zeros(2, rows, dtype=torch.int64, device=device)
        self.steps = _known_steps(rows, size, device)
        self.by_byte = isinstance(kernels.distribution, PixelLogistics)
        self.costs = self.steps.bits[:, None]
        if self.by_byte:
            self.costs = torch.zeros_like(self.steps.images, dtype=torch.float64)
        self.intervals = torch.zeros(rows, size, 2, dtype=torch.int32, device=device)
        # By images and steps, whether intervals are written, and in_one_launch
        self.graphs: dict[tuple[int, int, bool, bool], Replay] = {}
        # whether the recurrence of all positions is one launch, or one for each
        self.in_one_launch = True

    def run(self, batch: PrefillBatch) -> torch.Tensor:
        """See Backend.prefill."""
        state = batch.state
        count = len(batch.images)
        size = self.config.step_bytes
        start = batch.start
        end = int(batch.stops.max())
        if start is None:
            positions = state.position.cpu().numpy()
            start = int(min(positions[positions < batch.stops], default=end))
        in_image = batch.images.shape[1] == self.config.bytes and end <= self.config.bytes
        whole_steps = size == 1 or (start % size == 0 and (batch.stops % size == 0).all())
        if not in_image or not whole_steps:
            raise ValueError(
                f"cannot run bytes {start} to {end} of images of {batch.images.shape[1]} bytes"
            )
        bits = torch.zeros(count, end, dtype=torch.float64, device=self.device)
        for first in range(0, count, self.most):
            some = slice(first, min(count, first + self.most))
            self._run_images(batch, some, start, bits[some])
        return bits

    def one_launch_is_exact(self, state_dtype: torch.dtype, deferred: int) -> bool:
        """Return whether the recurrence of many positions in one launch has the bits of a launch
        for each, on this device: both are compiled from the same functions, each on its own."""
        config = self.config
        device = self.device
        batch = 2
        steps = 4 * (deferred + 1) - 1  # the last are all deferred
        how = (config.step_bytes, config.feature_map)
        width = config.heads * (2 * config.key_width + config.value_width)
        generator = torch.Generator().manual_seed(0)
        projected = torch.randn(steps * batch, width, generator=generator).to(device)
        at = torch.arange(steps, device=device).repeat_interleave(batch) * config.step_bytes

        state = State.zeros(replace(config, layers=1), batch, device, state_dtype, deferred)
        stepped = state.copy()
        arrays = state.s[0], state.z[0], state.deferred[0]
        first = torch.zeros(batch, dtype=torch.int64, device=device)
        y = fused_recurrent_sequence(projected, *arrays, at, first, first + steps, *how)

        arrays = stepped.s[0], stepped.z[0], stepped.deferred[0]
        images = torch.arange(batch, device=device)
        outputs = []
        for rows, position in zip(projected.split(batch), at.split(batch), strict=True):
            outputs.append(fused_recurrent_step(rows, *arrays, position, images, *how))
        same = [torch.equal(getattr(stepped, name), getattr(state, name)) for name in NUMBERS]
        return torch.equal(torch.cat(outputs), y) and all(same)

    def _run_images(self, batch: PrefillBatch, some: slice, start: int, bits: torch.Tensor) -> None:
        """Run the bytes from `start` on of `some` images of a batch; write their bits [n, N or
        fewer], which are 0."""
        count = len(bits)
        stop = int(batch.stops[some].max())
        # The smallest pass that has a place for each.
        images, steps = next(
            images_steps for images_steps in self.passes if images_steps[0] >= count
        )

        # A pass reads what is at fixed addresses.
        self.state.put(slice(0, count), batch.state.part(some.start, some.stop))
        self.images[:count] = batch.images[some]
        self.labels[:count] = batch.labels[some]
        self.stops.zero_()  # of images that are not there
        self.stops[:count] = to_device(batch.stops[some], self.device)
        self.begin.fill_(start)

        reach = steps * self.config.step_bytes
        for begin in range(start, stop, reach):
            chunk = slice(begin, min(stop, begin + reach))
            if batch.intervals is None:
                self._run_pass(images, steps, coded=False)
            else:
                in_batch = self._by_step(batch.intervals[some, chunk])
                in_pass = self._by_image(self.intervals, images, in_batch)
                in_pass.copy_(in_batch)  # what is not run stays
                self._run_pass(images, steps, coded=True)
                in_batch.copy_(in_pass)
            step_bits = self._by_step(bits[:, chunk])
            step_bits.copy_(self._by_image(self.costs, images, step_bits))
            self._widen(batch.tolerances[some], images, chunk, bits[:, chunk])
        torch.maximum(self.state.position, self.stops, out=self.state.position)
        batch.state.put(some, self.state.part(0, count))

    def _by_step(self, numbers: torch.Tensor) -> torch.Tensor:
        """Return numbers [n, m C, ...] of the bytes of m steps as [n, m, C, ...]."""
        return numbers.unflatten(1, (-1, self.config.step_bytes))

    def _by_image(self, rows: torch.Tensor, images: int, like: torch.Tensor) -> torch.Tensor:
        """Return a view of rows [R, C, ...] of a pass over so many images, [n, m, C, ...]: of as
        many images and steps as `like` has."""
        count, steps = like.shape[:2]
        by_step = rows[: steps * images].unflatten(0, (steps, images))
        return by_step[:, :count].transpose(0, 1)

    def _run_pass(self, images: int, steps: int, coded: bool) -> None:
        key = (images, steps, coded, self.in_one_launch)
        if key in self.graphs:
            self.graphs[key]()
            return
        launches = partial(self._launch, images, steps, coded)
        launches()  # kernels must be compiled before they are recorded
        self.graphs[key] = recorded(self.device, launches)

    def _launch(self, images: int, steps: int, coded: bool) -> None:
        """Run the steps from `begin` on of the first images, of each from its position to its
        stop, write their costs, and intervals if they are to be `coded`, and move `begin`;
        row i B + b is step i of image b."""
        rows = images * steps
        buffers = self.buffers.part(0, rows)
        known = self.steps.part(0, rows)
        state = self.state.part(0, images)
        at = self.at[:rows]
        row = self.row[:rows]
        costs = self.costs[:rows]
        first = self.first[:images]
        last = self.last[:images]
        write_rows(
            self.begin,
            state.position,
            self.stops,
            self.images,
            buffers.slots,
            row,
            at,
            first,
            last,
            known.images,
        )
        costs.zero_()
        known.state.position.zero_()
        self.kernels.input.run(self.images, state.position, self.labels, buffers, at)

        def conv(number: int, conv_weight: torch.Tensor, norm: Norm | None) -> None:
            causal_conv_sequence(
                buffers.x,
                conv_weight,
                buffers.active,
                at,
                state.conv_state[number],
                self.config.channels,
                buffers.convolved,
                norm,
                buffers.moments,
                self.kernels.chained,
                self.kernels.ordered,
            )

        recurrence = self._recurrence(state, buffers, at, first, last)
        self.kernels.predict(buffers, self.labels, recurrence, conv)

        # From here on, a row is an image of its own.
        image_rows = replace(buffers, active=row)
        self.kernels.sample(known, image_rows, costs if self.by_byte else None)
        if coded:
            self.kernels.write_intervals(known.images, image_rows, self.intervals[:rows])
        self.begin.add_(steps * self.config.step_bytes)

    def _widen(self, tolerances: np.ndarray, images: int, chunk: slice, bits: torch.Tensor) -> None:
        """Compute the bits [n, m] of the chunk that was just run anew, IN PLACE, of images with a
        tolerance: on the host, since few requests have one."""
        if not tolerances.any():
            return
        wide = torch.from_numpy(np.flatnonzero(tolerances)).to(self.device)
        # of a model that predicts one byte a step
        parameters = self._by_image(self.buffers.parameters, images, bits)[wide]
        values = self.images[wide, chunk]
        wide_bits = torch.from_numpy(
            range_bits(parameters.cpu().numpy(), values.cpu().numpy(), tolerances[tolerances > 0])
        )
        at = torch.arange(chunk.start, chunk.stop, device=self.device)
        was_run = (at >= self.state.position[wide, None]) & (at < self.stops[wide, None])
        bits[wide] = torch.where(was_run, wide_bits.to(self.device), bits[wide])

    def _recurrence(
        self,
        state: State,
        buffers: Buffers,
        at: torch.Tensor,
        first: torch.Tensor,
        last: torch.Tensor,
    ) -> Callable[[int], None]:
        """Return what runs the recurrence of a layer, over steps first..last-1 [B] of the rows in
        `buffers`, which are those of the bytes `at`."""
        batch = len(first)
        how = (self.config.step_bytes, self.config.feature_map)

        def sequence(i: int) -> None:
            arrays = state.s[i], state.z[i], state.deferred[i]
            fused_recurrent_sequence(
                buffers.projected, *arrays, at, first, last, *how, buffers.attended
            )

        def ordered(i: int) -> None:
            arrays = state.s[i], state.z[i], state.deferred[i]
            ordered_recurrence(
                buffers.projected,
                *arrays,
                at,
                buffers.active,
                self.config.step_bytes,
                buffers.attended,
                last,
            )

        def steps(i: int) -> None:
            arrays = state.s[i], state.z[i], state.deferred[i]
            for begin in range(0, len(buffers.slots), batch):
                part = buffers.part(begin, begin + batch)
                position = at[begin : begin + batch]
                # Not chained: a chained launch loads its states while
                # the one before may still write them.
                fused_recurrent_step(
                    part.projected,
                    *arrays,
                    position,
                    part.active,
                    *how,
                    part.attended,
                    chained=False,
                )

        if self.kernels.ordered:
            return ordered
        return sequence if self.in_one_launch else steps


def _known_steps(count: int, size: int, device: torch.device) -> SlotPool:
    """Return slots whose images are one step of known bytes, without states."""
    images = torch.zeros(count, size, dtype=torch.uint8, device=device)
    nothing = torch.zeros(0, count, device=device)
    ones = torch.ones(count, device=device)
    position, zeros = torch.zeros(2, count, dtype=torch.int64, device=device)
    bits, known_bits = torch.zeros(2, count, dtype=torch.float64, device=device)
    arrays = dict.fromkeys(ARRAYS, zeros)
    arrays["images"] = images
    arrays["known"] = torch.ones_like(images, dtype=torch.bool)
    arrays["bits"] = bits
    arrays["known_bits"] = known_bits
    arrays["temperature"] = ones
    arrays["guidance"] = ones
    state = State(position=position, **dict.fromkeys(NUMBERS, nothing))
    return SlotPool(state, **arrays)
