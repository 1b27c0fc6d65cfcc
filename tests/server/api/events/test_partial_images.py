"""Partial images: which are due at a position, and what they show."""

import numpy as np

from scanline.model.sampling.messages import GenerateRequest, Pixels
from scanline.model.tasks.paint import PaintTask
from scanline.server.api.payload.partial_images import UNPAINTED, PartialImages
from tests.support.tiny import COLOUR, GREY

IMAGE = bytes(range(35))
COLOURS = bytes(range(36))
Parts = list[tuple[int, list[int]]]  # number and bytes


def due(partials: PartialImages, index: int = 0) -> Parts:
    """What is due, all of it final."""
    found = list(partials.due(index))
    assert not any(is_provisional for _, _, is_provisional in found)
    return [(number, picture.reshape(-1).tolist()) for number, picture, _ in found]


def paint(task: PaintTask, upto: int, index: int = 0, image: bytes = IMAGE) -> None:
    """Delivers the bytes of an image up to `upto`."""
    first = int(task.painted[index])
    task.receive(Pixels(0, [(index, first, image[first:upto])]))


def begun(upto: int, count: int = 3, images: int = 1) -> tuple[PaintTask, PartialImages]:
    """A task of grey images, the first of which is painted up to `upto`."""
    task = PaintTask(GenerateRequest(0, images, seed=0), GREY)
    paint(task, upto)
    return task, PartialImages(task, count)


def test_partial_images_are_evenly_spaced_and_unpainted_pixels_grey() -> None:
    painted = [sum(byte != UNPAINTED for byte in picture) for _, picture in due(begun(35)[1])]
    assert painted == [8, 17, 26]
    assert due(begun(20, count=1)[1]) == [(0, [*IMAGE[:17], *[UNPAINTED] * 18])]


def test_none_is_sent_before_it_is_painted_or_without_request() -> None:
    assert due(begun(7)[1]) == []
    assert due(begun(35, count=0)[1]) == []
    assert due(begun(35, images=2)[1], index=1) == []


def test_one_with_bytes_that_may_change_is_provisional_and_not_sent_again() -> None:
    task, partials = begun(8)
    task.receive(Pixels(0, [], [(0, 8, bytes(10))]))
    found = [(number, picture.reshape(-1).tolist(), provisional) for number, picture, provisional in partials.due(0)]
    first, second = [*IMAGE[:8], *[UNPAINTED] * 27], [*IMAGE[:8], *bytes(9), *[UNPAINTED] * 18]
    assert found == [(0, first, False), (1, second, True)]
    paint(task, 26)
    assert due(partials) == [(2, [*IMAGE[:26], *[UNPAINTED] * 9])]


def test_a_slow_reader_gets_the_newest_of_unfinished_images() -> None:
    task, partials = begun(20)
    partials.merge()
    paint(task, 30)
    assert [number for number, _ in due(partials)] == [1, 2]
    _, partials = begun(35)
    partials.merge()
    assert due(partials) == []
    _, partials = begun(20)
    due(partials)
    partials.merge()
    assert due(partials) == []


def test_known_pixels_are_in_every_partial_image() -> None:
    mask = bytes(i >= 25 for i in range(35))
    task = PaintTask(GenerateRequest(0, 1, 0, known=(IMAGE,), masks=(mask,)), GREY)
    paint(task, 20)
    partials = PartialImages(task, 1)
    assert due(partials) == [(0, [*IMAGE[:12], *[UNPAINTED] * 13, *IMAGE[25:]])]


def test_partial_images_are_evenly_spaced_over_the_pixels_to_paint() -> None:
    mask = bytes(i not in (4, 30) for i in range(35))
    task = PaintTask(GenerateRequest(0, 1, 0, known=(IMAGE,), masks=(mask,)), GREY)
    paint(task, 35)
    partials = PartialImages(task, 1)
    assert due(partials) == [(0, [*IMAGE[:30], UNPAINTED, *IMAGE[31:]])]
    task = PaintTask(GenerateRequest(0, 1, 0, known=(IMAGE,), masks=(bytes(i != 4 for i in range(35)),)), GREY)
    paint(task, 35)
    assert due(PartialImages(task, 3)) == []


def test_each_completion_has_the_known_pixels_of_its_image() -> None:
    """Image 3 is the second completion of the second image."""
    mask = bytes(i < 5 for i in range(35))
    task = PaintTask(GenerateRequest(0, 4, 0, 1.0, (bytes(35), IMAGE), (mask[::-1], mask)), GREY)
    paint(task, 21, index=3)
    ((_, picture),) = due(PartialImages(task, 1), index=3)
    assert picture == [*IMAGE[:20], *[UNPAINTED] * 15]


def test_a_pixel_has_all_or_none_of_its_channels() -> None:
    task = PaintTask(GenerateRequest(0, 1, seed=0), COLOUR)
    paint(task, 36, image=COLOURS)
    partials = PartialImages(task, 3)
    pictures = np.array([picture for _, picture in due(partials)]).reshape(3, 12, 3)
    assert ((pictures == UNPAINTED).all(-1) == (pictures == UNPAINTED).any(-1)).all()
