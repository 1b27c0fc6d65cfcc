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
        self.config = task.config
        nothing = bytes(task.config.bytes)
        known = task.request.known or (nothing,)
        masks = task.request.masks or (nothing,)
        self.blanks: list[
            np.ndarray
        ] = []  # of each picture that is completed, with nothing painted
        cuts_of: dict[bytes, np.ndarray] = {}  # images nearly always share their mask
        for image, mask in zip(known, masks, strict=True):
            is_known = np.frombuffer(mask, bool)
            picture = np.frombuffer(image, np.uint8)
            self.blanks.append(np.where(is_known, picture, np.uint8(UNPAINTED)))
            if mask not in cuts_of:
                cuts_of[mask] = _cuts(is_known, wanted, task.config)
        cuts = [cuts_of[mask] for mask in masks]
        self.cuts = np.repeat(cuts, task.count // len(masks), axis=0)
        # partial images of each that were sent, or skipped
        self.sent = np.zeros(task.count, np.int64)

    def due(self, index: int) -> Iterator[tuple[int, np.ndarray, bool]]:
        """Yield number and picture [H, W] or [H, W, 3] of each partial image of an image that can
        be sent now, and whether it is provisional: the image may have other pixels in the end."""
        while self.sent[index] < self._reached(index):
            number = int(self.sent[index])
            self.sent[index] += 1
            cut = self.cuts[index, number]
            picture = self.blanks[self.task.request.source(index) or 0].copy()
            picture[:cut] = self.task.images[index, :cut]
            is_provisional = bool(cut > self.task.painted[index])
            yield number, picture.reshape(self.config.image_shape), is_provisional

    def merge(self) -> None:
        """Skip the partial images that a slow reader has missed: send only the newest of each
        image, and none of an image that is done."""
        newest = np.where(self.task.painted == self.config.bytes, 0, 1)
        self.sent = np.maximum(self.sent, self._reached(slice(None)) - newest)

    def _reached(self, which: int | slice) -> np.ndarray:
        """Return how many partial images of an image, or of each, have
        been painted, be it provisionally.
        """
        painted = np.maximum(self.task.painted[which, None], self.task.provisional[which, None])
        return (self.cuts[which] <= painted).sum(-1)


def _cuts(mask: np.ndarray, wanted: int, config: ModelConfig) -> np.ndarray:
    """Return the bytes [wanted] that an image's partial images have; beyond its
    end where there are too few pixels.
    """
    # whole pixels: a mask never parts the channels
    unknown = np.flatnonzero(~mask[:: config.channels])
    counts = np.unique(np.arange(1, wanted + 1) * len(unknown) // (wanted + 1))
    cuts = unknown[counts[counts > 0]] * config.channels
    return np.pad(cuts, (0, wanted - len(cuts)), constant_values=config.bytes + 1)
