"""Waiting for a device sleeps: it costs no core."""

import time
from pathlib import Path
from typing import ClassVar

import pytest
import torch

from scanline.model import backends
from scanline.model.backends.pending import DeviceClock
from tests.support.kernels.gpu import ON_GPU


class Event:
    """An event of CUDA, as far as pending results use it, on a machine without a GPU."""

    waits: ClassVar[list[bool]] = []  # of each wait, whether it sleeps

    def __init__(self, *, enable_timing: bool = False, blocking: bool = False) -> None:
        self.blocking = blocking

    def record(self) -> None:
        """Nothing is queued."""

    def synchronize(self) -> None:
        self.waits.append(self.blocking)

    def elapsed_time(self, other: "Event") -> float:
        return 2000.0


def test_every_event_that_is_waited_for_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "Event", Event)
    assert DeviceClock(torch.device("cuda")).stop().wait() == 2.0
    assert Event.waits == [True]
    folder = Path(str(backends.__file__)).parent
    assert [path.name for path in folder.glob("*.py") if "cuda.Event(" in path.read_text()] == ["pending.py"]


@pytest.mark.skipif(not ON_GPU, reason="needs a GPU")
def test_a_wait_for_a_gpu_takes_no_core() -> None:
    clock = DeviceClock(torch.device("cuda"))
    torch.cuda._sleep(2_000_000_000)  # cycles: about a second
    began = time.process_time()
    seconds = clock.stop().wait()
    assert time.process_time() - began < 0.1 * seconds
