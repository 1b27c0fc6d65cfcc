"""Partial images of a task: the image so far, mid-grey where nothing is painted.

They are cut out of the task's own images when they are sent, so that a slow reader costs a few
counters and no memory. Of an image of several candidates they show the first one's bytes where
these differ, and are provisional.
"""

from collections.abc import Iterator

import numpy as np

from scanline.model.base.config import ModelConfig
from scanline.model.images.contact_sheet import UNPAINTED
from scanline.model.tasks.paint import PaintTask


class PartialImages:
    """Up to `wanted` partial images of each image of a task, evenly spaced over the pixels to
    paint."""

    def __init__(self, task: PaintTask, wanted: int) -> None:
        self.task = task
        config = task.config
        request = task.request
        nothing = (bytes(config.bytes),)
        known = request.known or nothing
        masks = request.masks or nothing
        pictures = np.frombuffer(b"".join(known), np.uint8)
        is_known = np.frombuffer(b"".join(masks), bool)
        blanks = np.where(is_known, pictures, np.uint8(UNPAINTED))
        # of each picture that is completed, with nothing painted
        self.blanks = blanks.reshape(-1, config.bytes)

        # Images nearly always share their mask.
        cuts_of = {}
        for mask in set(masks):
            cuts_of[mask] = _cuts(mask, wanted, config)
        cuts = [cuts_of[mask] for mask in masks]
        copies = task.count // len(masks)
        self.cuts = np.repeat(cuts, copies, axis=0)
        # partial images of each that were sent, or skipped
        self.sent = np.zeros(task.count, np.int64)

    def due(self, index: int) -> Iterator[tuple[int, np.ndarray, bool]]:
        """Yield number and picture [H, W] or [H, W, 3] of each partial image of an image that can
        be sent now, and whether it is provisional: the image may have other pixels in the end."""
        task = self.task
        source = task.request.source(index) or 0
        while self.sent[index] < self._reached(index):
            number = int(self.sent[index])
            self.sent[index] += 1
            cut = int(self.cuts[index, number])
            painted = task.images[index, :cut]
            unpainted = self.blanks[source, cut:]
            picture = np.concatenate((painted, unpainted))
            picture = picture.reshape(task.config.image_shape)
            is_provisional = cut > int(task.painted[index])
            yield number, picture, is_provisional

    def merge(self) -> None:
        """Skip the partial images that a slow reader has missed: send only the newest of each
        image, and none of an image that is done."""
        task = self.task
        is_unfinished = task.painted < task.config.bytes
        reached = self._reached(slice(None))
        self.sent = np.maximum(self.sent, reached - is_unfinished)

    def _reached(self, which: int | slice) -> np.ndarray:
        """Return how many partial images of an image, or of each, have
        been painted, be it provisionally.
        """
        painted = self.task.painted[which]
        provisional = self.task.provisional[which]
        shown = np.maximum(painted, provisional)
        is_reached = self.cuts[which] <= shown[..., None]
        return is_reached.sum(-1)


def _cuts(
    mask: bytes,  # N, 1 where a byte is known
    wanted: int,
    config: ModelConfig,
) -> np.ndarray:
    """Return the bytes [wanted] that an image's partial images have; beyond its end where there are
    too few pixels.
    """
    # whole pixels: a mask never parts the channels
    is_known = np.frombuffer(mask, bool)[:: config.channels]
    unknown = np.flatnonzero(~is_known)
    parts = np.arange(1, wanted + 1)
    counts = parts * len(unknown) // (wanted + 1)
    counts = np.unique(counts[counts > 0])
    cuts = np.full(wanted, config.bytes + 1)
    cuts[: len(counts)] = unknown[counts] * config.channels
    return cuts
