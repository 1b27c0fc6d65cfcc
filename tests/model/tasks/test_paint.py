"""A task of painting merges the events of its engine until they are taken."""

import numpy as np
from numpy.testing import assert_array_equal

from scanline.model.sampling.base.messages import (
    Finished,
    GenerateRequest,
    Pixels,
    StateSnapshot,
)
from scanline.model.tasks.paint import PaintedPart, PaintTask
from tests.support.small_models import GREY

IMAGE = bytes(range(100, 135))
OTHER = IMAGE[::-1]
BEGIN = Pixels(0, [(0, 0, IMAGE[:10])])
END = Finished(0, 0, IMAGE, 2.5)


def after(*events, images=1):
    """A task that has received all of `events` before anything is taken."""
    task = PaintTask(GenerateRequest(0, images, seed=0), GREY)
    for event in events:
        task.receive(event)
    return task


def test_bytes_that_were_not_taken_are_merged_into_one_frame():
    task = after(
        BEGIN,
        Pixels(0, [(0, 10, IMAGE[10:20])]),
        END,
    )
    assert task.take() == PaintedPart([(0, 0, IMAGE)], [0])
    assert not task.take()


def test_each_image_has_a_frame_of_its_own():
    task = after(
        Finished(0, 1, IMAGE, 2.0),
        Finished(0, 0, OTHER, 3.0),
        images=2,
    )
    assert task.take() == PaintedPart([(0, 0, OTHER), (1, 0, IMAGE)], [1, 0])


def test_a_frame_begins_where_the_last_one_ended():
    task = after(BEGIN)
    assert task.take().frames == [(0, 0, IMAGE[:10])]
    task.receive(END)
    assert task.take().frames == [(0, 10, IMAGE[10:])]


def test_provisional_bytes_are_here_but_in_no_frame():
    task = after(
        Pixels(
            0,
            [(0, 0, IMAGE[:10])],
            [(0, 10, b"later")],
        )
    )
    assert task.take() == PaintedPart([(0, 0, IMAGE[:10])], [], provisional=(0,))
    task.receive(Pixels(0, [], [(0, 10, b"other")]))
    assert task.images[0, :15].tobytes() == IMAGE[:10] + b"other"
    assert task.take() == PaintedPart([], [], provisional=(0,))
    task.receive(END)
    assert task.take() == PaintedPart([(0, 10, IMAGE[10:])], [0])


def test_provisional_bytes_of_an_image_that_is_painted_anew_change_no_final_byte():
    anew = Pixels(
        0,
        [(0, 0, IMAGE[:4])],
        [(0, 4, bytes(20))],
    )
    task = after(BEGIN, anew)
    assert task.images[0, :10].tobytes() == IMAGE[:10]
    assert task.painted.tolist() == [10]
    assert task.provisional.tolist() == [24]
    assert task.changing == {0}
    task.receive(END)
    task.receive(Pixels(0, [], [(0, 4, bytes(31))]))
    assert task.images[0].tobytes() == IMAGE


def test_the_images_that_are_wanted_are_known_by_their_rows():
    task = PaintTask(GenerateRequest(0, 9, seed=0, only=(3, 7)), GREY)
    task.receive(Finished(0, 7, IMAGE, 2.5, label=2))
    task.receive(Finished(0, 3, OTHER, 3.0))
    assert task.images[1].tobytes() == IMAGE
    assert task.bits_per_dim[1] == 2.5
    assert task.label(1) == 2
    assert task.take() == PaintedPart([(0, 0, OTHER), (1, 0, IMAGE)], [1, 0])
    assert task.held_bytes == 70


def test_only_the_newest_state_is_taken_and_none_again_of_an_image_that_is_painted_anew():
    early = StateSnapshot(0, 5, b"s", b"z")
    late = StateSnapshot(0, 9, b"s", b"z")
    task = after(early, late)
    assert task.take().snapshot is late
    task.receive(early)
    assert task.take().snapshot is None


def test_the_numbers_of_completions_are_theirs_alone():
    task = after(
        Finished(0, 0, IMAGE, 2.5, evidence_bits=80.5, effective_particles=3.25),
        Finished(0, 1, IMAGE, 2.5),
        images=2,
    )
    assert_array_equal(task.evidence["evidence_bits"], [80.5, np.nan])
    assert_array_equal(task.evidence["effective_particles"], [3.25, np.nan])


def test_frames_that_are_not_taken_yet_are_counted_as_merged():
    assert after(BEGIN, END).merged == 0
    assert after(BEGIN, Pixels(0, [(0, 10, b"a")]), Pixels(0, [(0, 11, b"b")])).merged == 2
