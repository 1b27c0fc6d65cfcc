"""The base of backends, with the ways of placing, fetching and resampling that several of them
share."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from scanline.kernels.codec.coder import Decoder
from scanline.model.backends import particles
from scanline.model.backends.arrivals import Arrivals
from scanline.model.backends.groups import Groups
from scanline.model.backends.pending import DeviceClock, Pending, to_host
from scanline.model.backends.prefill_batch import PrefillBatch
from scanline.model.backends.slots import Fetched, SlotPool


@dataclass(frozen=True)
class Painted:
    """What passes have painted, an image with two slots being one."""

    seconds: float  # that the device itself took
    images: int
    passes: int  # of images
    computed: int  # the steps of all images in them
    painted: int  # of these: the others followed a wrong guess
    wrong: int  # guesses

    def __add__(self, later: "Painted") -> "Painted":
        """Return what was painted of the same images by two calls."""
        return Painted(
            self.seconds + later.seconds,
            self.images,
            self.passes + later.passes,
            self.computed + later.computed,
            self.painted + later.painted,
            self.wrong + later.wrong,
        )


class Backend:
    """One network made ready for one device. An image's arithmetic never
    depends on what else is in the batch.

    A device does what it is given in the order of the calls. Where it `is_asynchronous`, `place`,
    `advance`, `fetch` and `start_prefill` return before it has done so, and the engine gives it the
    next steps before the last ones ended.
    """

    name: str  # for people: what computes, and how
    # what else its results' bits depend on than the model and the
    # precision: equal builds, equal bits
    build: str
    # the part of it that their parameters' bits depend on, which
    # a new version of a library may keep
    arithmetic: str
    # Whether its results are those of the cpu kernel, bit for bit, on whichever
    # device it computes them
    has_cpu_bits = False
    rows: int  # a pool's number of slots must be a multiple of this
    state_dtype: torch.dtype  # in which s is stored between steps
    deferred: int = 0  # steps at most that a state keeps beside s and z
    is_asynchronous: bool
    paints_ahead: bool = False  # whether there is `paint_ahead`
    # images that `prefill` computes at once; more take their time one after the other
    prefill_images: int
    # of which a call has a multiple at best: the rows of a tile of the cpu kernel
    prefill_steps = 42
    # Whether `prefill` has the bits of `advance`, and so the same however its bytes
    # are divided into calls. If not, they differ by rounding: attention in chunks adds
    # in another order than the recurrence.
    prefills_in_chunks: bool

    def advance(self, pool: SlotPool, slots: np.ndarray, steps: int) -> Pending[float]:
        """Paint up to `steps` steps of the images in `slots` [n] int64,
        ascending, that are not done, IN PLACE.

        The result is the time in seconds that the device itself took for them.
        """
        raise NotImplementedError

    def paint_ahead(
        self, pool: SlotPool, slots: np.ndarray, passes: int, stops: np.ndarray
    ) -> Pending[Painted]:
        """Run up to `passes` passes of the images in `slots` [n] int64, ascending, IN PLACE.

        A pass of an image paints its next step and, as far as the bytes between can be guessed,
        steps after it, with the same bytes, bits and states as `advance`. No step begins at or
        behind the image's position in `stops` [n] int64; both slots of a guided image have one.
        Only where `paints_ahead`.
        """
        raise NotImplementedError

    def prefill(self, batch: PrefillBatch) -> torch.Tensor:
        """Run the known bytes of a batch; its `state` is moved to `stops` IN PLACE.

        Return bits [B, max(stops)] float64 on the batch's device: of each byte
        that was run its cost, elsewhere 0.
        """
        raise NotImplementedError

    def start_prefill(self, batch: PrefillBatch) -> Pending[tuple[float, np.ndarray]]:
        """Start `prefill`; return the device's seconds and the bits, on the host.
        A GPU is waited for by nothing here, where the batch has its `start`, but
        for the images with a tolerance."""
        clock = DeviceClock(batch.images.device)
        bits = to_host(self.prefill(batch))
        seconds = clock.stop()
        return Pending(lambda: (seconds.wait(), bits.wait().numpy()))

    def warm_up(self, pool: SlotPool) -> None:
        """Prepare all that a call with these slots may need; change no image."""

    def place(self, pool: SlotPool, arrivals: Arrivals) -> None:
        """Start images in their slots, whatever these held: everything in one copy to the device."""
        pool.place(arrivals)

    def put_codes(self, pool: SlotPool, slots: np.ndarray, decoders: Sequence[Decoder]) -> None:
        """Let images that have been placed in `slots` [n] int64 be painted from codes, IN PLACE."""
        pool.put_codes(slots, decoders)

    def fetch(self, pool: SlotPool, slots: np.ndarray) -> Pending[Fetched]:
        """Copy images and bits of `slots` [n] int64 as the calls before this one leave them: all in
        one copy."""
        return pool.fetch(slots)

    def resample(self, pool: SlotPool, groups: Groups) -> None:
        """Draw the particles of each group anew where few have most of the weight, IN PLACE
        (particles.py)."""
        particles.resample(pool, groups, particles.copy_slots)

    def choose(self, pool: SlotPool, groups: Groups) -> None:
        """Draw one particle of each group by weight, whose image and bits its leader's slot then
        has, IN PLACE."""
        particles.choose(pool, groups)

    def close(self) -> None:
        """End the backend's threads and free its memory."""
