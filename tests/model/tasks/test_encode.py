"""A task of encoding holds the intervals of its readings until they are encoded, and none that
comes again.
"""

import numpy as np

from scanline.model.formats.model_dir import ModelInfo
from scanline.model.images.cleaning import Cleaned
from scanline.model.sampling.base.messages import Scored
from scanline.model.tasks import encode
from scanline.model.tasks.encode import EncodeValues
from tests.support.small_models import GREY

INTERVALS = np.array([[0, 1 << 20]] * GREY.bytes, np.uint32).tobytes()
FIRST = Scored(0, 0, b"", None, INTERVALS)
SECOND = Scored(0, 1, b"", None, INTERVALS)


def test_intervals_are_held_until_they_are_encoded():
    task = encode.plan(ModelInfo(GREY), EncodeValues([None, None], "0" * 32, "exact"))
    images = np.zeros((2, GREY.bytes), np.uint8)
    no = np.zeros(2, np.bool_)
    task.fill([Cleaned(images, no, np.zeros(2, np.int64))])
    task.receive(SECOND)
    assert task.held_bytes == len(INTERVALS)
    assert not task.has_work
    task.receive(FIRST)
    assert task.held_bytes == 2 * len(INTERVALS)
    assert task.has_work
    assert [*task.work()]
    assert task.held_bytes == 0
    task.receive(FIRST)
    assert task.held_bytes == 0
