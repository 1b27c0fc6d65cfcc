"""The length of a tick in passes: as many as fit into its time, judged by the passes before.

A pass paints a step of every image, or several where the backend paints ahead.
"""

import sys
from math import ceil

from scanline.model.backends.backend import Painted

# short enough for smooth streams and prompt cancellation, much longer than a tick's own cost
TICK_SECONDS = 0.025
MAX_STEPS = 32  # a slot whose image is done stays idle for the rest of the tick
# where nothing is streamed, beyond MAX_STEPS until an image is done: few images cost less
LONG_TICK_SECONDS = 0.016
MIN_IMAGES = 64  # of a step that is not of all: more cost no less each


class TickLength:
    """Remember how long a pass took, for batches of about the same size (log2)."""

    def __init__(self) -> None:
        self.last = (TICK_SECONDS, 1)  # seconds of a pass, and its images
        self.by_size: dict[int, tuple[float, int]] = {}
        self.steps_of_pass = 1.0  # of an image, in the last tick

    def passes(self, images: int, most_left: int, least_left: int, *, streamed: bool) -> int:
        """Return the passes of a tick of so many images, of which the least painted one has
        `most_left` steps, and the most painted one `least_left`.

        A tick is short where something is streamed, so that its pixels are sent in several frames.
        """
        seconds, measured_images = self.by_size.get(images.bit_length(), self.last)
        expected = seconds * max(1.0, images / measured_images)
        most = self.passes_of(MAX_STEPS)
        if not streamed:
            until_done = self.passes_of(least_left)
            in_time = int(LONG_TICK_SECONDS / expected)
            most = max(most, min(until_done, in_time))
        in_time = int(TICK_SECONDS / expected)
        return max(1, min(most_left, most, in_time))

    def passes_of(self, steps: int) -> int:
        """Return in how many passes so many steps are expected to be painted."""
        return max(1, ceil(steps / self.steps_of_pass))

    def images(self) -> int:
        """Return how many images fit into a tick of one step, judged by the
        quickest batch; at least MIN_IMAGES.
        """
        rates = [images / seconds for seconds, images in self.by_size.values()]
        fastest = max(rates, default=sys.maxsize)
        return max(MIN_IMAGES, int(TICK_SECONDS * fastest))

    def took(self, painted: Painted, passes: int, slots: int) -> int:
        """Record how long a tick of at most `passes` passes of so many slots has taken; return
        how many passes it had.
        """
        # Passes are those of images: the more, the longer the tick; some images end sooner.
        of_image = ceil(painted.passes / painted.images)
        had = max(1, min(passes, of_image))
        self.last = (painted.seconds / had, slots)
        self.by_size[slots.bit_length()] = self.last
        self.steps_of_pass = max(1.0, painted.painted / max(1, painted.passes))
        return had
