"""An image in one slot: painted from nothing, or around known bytes."""

from scanline.model.sampling.kinds.kind import Kind


class Plain(Kind):
    pass


PLAIN = Plain()
