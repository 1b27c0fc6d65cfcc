"""Memory and time of a call are its own, a call that does not fit is a point, and slopes are those of the growth."""

from collections.abc import Callable, Iterator
from multiprocessing import forkserver
from pathlib import Path

import pytest
import torch

from benchmarks.paper import isolated, scaling
from benchmarks.paper.isolated import Isolated
from benchmarks.paper.results import Results

KB = 1024


def hold(kilobytes: int) -> Callable[[], object]:
    """A call that allocates, and frees when it returns."""
    return lambda: torch.ones(kilobytes * KB // 4).sum()


def fail(length: int) -> Callable[[], object]:
    raise RuntimeError("the shapes do not fit")


@pytest.fixture(scope="module")
def processes() -> Iterator[Isolated]:
    """With a fork server of their own: this process may have one, whose allocator is as it is."""
    own = forkserver.ForkServer()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("ensure_running", "connect_to_new_process", "set_forkserver_preload", "get_inherited_fds"):
            patch.setattr(forkserver, name, getattr(own, name))
        with Isolated() as started:
            yield started
    own._stop()  # type: ignore[attr-defined]


@pytest.mark.slow  # its time is measured in a third process
def test_the_peak_is_what_the_call_allocates(processes: Isolated) -> None:
    small, large = (processes.measure(hold, kilobytes, 0.0) for kilobytes in (20 * KB, 80 * KB))
    assert small["peak_bytes"] == pytest.approx(20 * KB * KB, rel=0.05)
    assert large["peak_bytes"] == pytest.approx(80 * KB * KB, rel=0.05)
    assert small["step_seconds"] > 0


@pytest.mark.slow
def test_memory_that_is_not_there_is_a_point_and_another_failure_an_error(
    processes: Isolated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolated, "free_memory", lambda: 40 * KB * KB)
    point = processes.measure(hold, 80 * KB, 0.0)
    assert point == {"does_not_fit": True, "killed": False, "limit_bytes": int(isolated.SHARE * 40 * KB * KB)}
    with pytest.raises(RuntimeError, match="the shapes do not fit"):
        processes.measure(fail, 128, 0.0)


def test_slopes_are_the_exponents_of_the_growth() -> None:
    lengths = [2**power for power in range(9, 17)]
    assert scaling.slope({n: 3e-6 * n**2 for n in lengths}) == pytest.approx(2)
    assert scaling.slope({n: 1e-3 * n + (100.0 if n < scaling.SLOPE_FROM else 0.0) for n in lengths}) == pytest.approx(
        1
    )
    assert scaling.slope({512: 1.0, 1024: 2.0}) is None


def test_a_length_that_does_not_fit_ends_the_row(tmp_path: Path) -> None:
    results = Results(tmp_path, "scaling")
    results.measure("softmax/512", lambda: {"step_seconds": 0.5, "peak_bytes": 10_000_000})
    results.measure("softmax/1024", lambda: {"does_not_fit": True, "killed": False, "limit_bytes": 1})
    results.measure("linear/512", lambda: {"step_seconds": 0.001, "peak_bytes": 1_000_000})
    results.measure("linear/1024", lambda: {"step_seconds": 0.002, "peak_bytes": 2_000_000})
    lines = scaling.section(results).splitlines()
    assert "| softmax | 500 | does not fit |" in lines
    assert "| linear | 1 | 2 |" in lines
    assert "| softmax | 10 | does not fit |" in lines
