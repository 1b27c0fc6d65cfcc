"""Partial images for a client that reads slowly: the newest of each image, none of one that is done."""

from scanline.model.sampling.messages import GenerateRequest, Pixels
from scanline.model.tasks.paint import PaintTask
from scanline.server.api.payload.partial_images import PartialImages
from tests.support.tiny import GREY

IMAGE = bytes(range(35))


def test_a_slow_reader_gets_the_newest_of_unfinished_images() -> None:
    def numbers(*painted: int) -> list[int]:
        """Those that are due when so many bytes have been painted; after the first time, the reader is late."""
        task = PaintTask(GenerateRequest(0, 1, seed=0), GREY)
        partials = PartialImages(task, 3)
        for upto in painted:
            first = int(task.painted[0])
            task.receive(Pixels(0, [(0, first, IMAGE[first:upto])]))
            if upto == painted[0]:
                partials.merge()
        return [number for number, _, _ in partials.due(0)]

    assert numbers(20) == [1]
    assert numbers(20, 30) == [1, 2]
    assert numbers(35) == []
