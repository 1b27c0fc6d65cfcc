"""The length of a tick in steps: as many as fit into its time, judged by the steps before."""

import sys

# short enough for smooth streams and prompt cancellation, much longer than a tick's own cost
TICK_SECONDS = 0.025
MAX_STEPS = 32  # a slot whose image is done stays idle for the rest of the tick
# where nothing is streamed, beyond MAX_STEPS until an image is done: few images cost less
LONG_TICK_SECONDS = 0.016
MIN_IMAGES = 64  # of a step that is not of all: more cost no less each


class TickLength:
    """Remember how long a step took, for batches of about the same size (log2)."""

    def __init__(self) -> None:
        self.last = (TICK_SECONDS, 1)  # seconds of a step, and its images
        self.by_size: dict[int, tuple[float, int]] = {}

    def steps(self, images: int, most_left: int, least_left: int, *, streamed: bool) -> int:
        """Return the steps of a tick of so many images, of which the least painted one has
        `most_left` steps, and the most painted one `least_left`.

        A tick is short where something is streamed, so that its pixels are sent in several frames.
        """
        seconds, measured_images = self.by_size.get(images.bit_length(), self.last)
        expected = seconds * max(1.0, images / measured_images)
        most = MAX_STEPS
        if not streamed:
            most = max(MAX_STEPS, min(least_left, int(LONG_TICK_SECONDS / expected)))
        return max(1, min(most_left, most, int(TICK_SECONDS / expected)))

    def images(self) -> int:
        """Return how many images fit into a tick of one step, judged by the
        quickest batch; at least MIN_IMAGES.
        """
        fitting = (TICK_SECONDS * images / seconds for seconds, images in self.by_size.values())
        return max(MIN_IMAGES, int(max(fitting, default=sys.maxsize)))

    def took(self, seconds: float, steps: int, images: int) -> None:
        """Record how long the steps of a tick have taken."""
        self.last = self.by_size[images.bit_length()] = (seconds / steps, images)
