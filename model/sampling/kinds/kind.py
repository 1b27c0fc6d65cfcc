"""What the engine asks of an image: its slots, what is placed in each, where
its steps must stop, what may be sent.

The answers here are those of most kinds; each kind's file has those that differ. Knows no
request, no slot by number and no torch.
"""

import numpy as np

from scanline.model.base.config import ModelConfig
from scanline.model.base.inputs import InvalidInput
from scanline.model.sampling.kinds.image_spec import ImageSpec


class Kind:
    slots = 1  # that an image takes
    candidates = 1  # of them, that paint bytes of their own; one of these is chosen at the end
    is_chosen_by_head = False  # by the class head, which reads all candidates
    param = "n"  # the option that decides how many slots an image takes
    counted = ""  # in words, how an image of several slots is counted
    unless = ""  # in words, when it would take one slot
    needs = ""  # in words, what needs how many slots
    code = "invalid_value"  # of the error where there are fewer
    may_share_beginnings = True  # with images that were painted before
    is_followed = False  # whether `following` may return an image

    @property
    def copies(self) -> dict[str, int]:
        """How many copies of a completion are weighed, as answers name them."""
        return {"particles": self.candidates}

    def drawn(self, spec: ImageSpec) -> ImageSpec:
        """Return an image with what is particular to its kind."""
        return spec

    def check_slots(self, slots: int) -> None:
        """Raise InvalidInput where an image takes more than all
        `slots` of an engine; 0: not known yet.
        """
        if self.slots > slots > 0:
            has = "one slot" if slots == 1 else f"{slots} slots"
            message = f"This server has {has}, and {self.needs}."
            raise InvalidInput(message, self.param, self.code)

    def labels(self, label: int) -> tuple[int, ...]:
        """Return the labels under which the known first bytes of an image of this
        label are read: one or for each slot."""
        return (label,)

    def specs(self, spec: ImageSpec) -> tuple[ImageSpec, ...]:
        """Return what is placed in each slot."""
        return (spec,)

    def checks(self, spec: ImageSpec, config: ModelConfig) -> tuple[int, ...]:
        """Return the positions, ascending, at which steps must stop:
        there the candidates are resampled.
        """
        return ()

    def is_wanted(self, index: int) -> bool:
        """Return whether image `index` is sent; else it is painted for the sake of a later one."""
        return True

    def wants_frame(self, sent: int, stop: int, is_due: bool) -> bool:
        """Return whether a stream gets a frame of an image that is painted up to byte
        `stop`, of which frames up to byte `sent` have been made: the first and last ones
        at once, others when they are due. Of several candidates all are fetched, to be
        compared, so never sooner than others are."""
        if self.candidates > 1:
            return is_due
        return stop > sent and (is_due or not sent)

    def final(self, images: np.ndarray, stop: int) -> int:
        """Return the byte up to which nothing can change of what is painted up to byte `stop`:
        the first one in which candidates differ. It only grows: what is resampled later comes
        from these, and so does the image that is chosen at the end.

        images: [P, N] uint8, of the slots that were fetched."""
        painted = images[:, :stop]
        differs = (painted[1:] != painted[0]).any(axis=0)
        if differs.any():
            return int(differs.argmax())
        return stop

    def following(self, index: int, read: np.ndarray) -> int | None:
        """Return the image that can be painted once image `index` is complete, and could not
        before; read: [3] int64, what that has read of its code (Fetched.decoders)."""
        return None
