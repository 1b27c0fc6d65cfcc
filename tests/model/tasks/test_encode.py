"""A task of encoding holds the intervals of its readings until they are
encoded, and none that comes again.
"""

import numpy as np

from scanline.model.formats.model_dir import ModelInfo
from scanline.model.images.cleaning import Cleaned
from scanline.model.sampling.base.messages import Scored
from scanline.model.tasks import encode
from scanline.model.tasks.encode import EncodeValues
from tests.support.small_models import GREY

INTERVALS = np.array([[0, 1 << 20]] * GREY.bytes, np.uint32).tobytes()


def reading(index: int) -> Scored:
    return Scored(0, index, b"", None, INTERVALS)


def test_intervals_are_held_until_they_are_encoded() -> None:
    task = encode.plan(ModelInfo(GREY), EncodeValues([None, None], "0" * 32, "exact"))
    none = np.zeros(2, np.int64)
    task.fill([Cleaned(np.zeros((2, GREY.bytes), np.uint8), none > 0, none, none > 0)])
    task.receive(reading(1))
    assert (task.held_bytes, task.has_work) == (len(INTERVALS), False)
    task.receive(reading(0))
    assert (task.held_bytes, task.has_work) == (2 * len(INTERVALS), True)
    assert [*task.work()]
    assert task.held_bytes == 0
    task.receive(reading(0))
    assert task.held_bytes == 0
