"""Training in several processes of one machine (torch.distributed): each computes the gradients of
its share of every batch, on a CPU or on a GPU of its own, and all move the same weights by their
average; or each has a branch of its own (local_sgd.py).

Gradients are averaged as one vector, by gloo on a CPU and by NCCL on GPUs, and not by torch's
DistributedDataParallel: that hooks a module's forward pass, and an update is a compiled loss of
other methods, recorded with its backward pass, the average and the optimiser's step in one CUDA
graph. DDP hides the exchange behind the backward pass, but 43 MB of gradients (10.8 million
weights) between two GPUs are under a millisecond of an update of tens.

The caller's process has rank 0: it alone reads the clock, tests, reports and writes. The others
follow it until it kills them. If one of them ends before, the next exchange fails in all others.
"""

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from multiprocessing import connection, get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from scanline.model.base.safe_path import safe_path

# rates are sent by gloo: it sees that a process has ended
BACKENDS = {"cpu": "gloo", "cuda": "cpu:gloo,cuda:nccl"}
AVERAGE_TIMEOUT = timedelta(days=7)  # the other ranks wait for rank 0 while it tests and paints
SECONDS_TO_END = 5
# torch's words, of GPUs and of CPUs
OUT_OF_MEMORY = ("out of memory", "not enough memory", "allocate memory")


class WorkerError(ChildProcessError):
    """Another process of the run has ended; the message is one sentence for the user."""


def memory_reason(error: Exception) -> str | None:
    """Return what was asked of a machine without the memory for it, as Python, numpy or torch
    say it; None for any other error."""
    text = str(error).partition("\n")[0]
    if isinstance(error, MemoryError) or any(words in text for words in OUT_OF_MEMORY):
        return f"there is not enough memory: {text}".removesuffix(": ")
    return None


class Group:
    """One process among those of a run; by default the only one."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank = rank
        self.size = size

    def device(self, device: torch.device) -> torch.device:
        """Return this process's device: the one given, or a GPU of its own, which is torch's own
        from now on."""
        if self.size == 1 or device.type == "cpu":
            return device
        torch.cuda.set_device(self.rank)
        return torch.device(device.type, self.rank)

    def share(self, batch: torch.Tensor) -> torch.Tensor:
        """Return this process's images of a batch [B, N], or their labels of [B], where `size`
        divides B."""
        return batch[self.rank :: self.size]

    def average_gradients(self, model: nn.Module, loss: torch.Tensor) -> torch.Tensor:
        """Average gradients over processes, in place, and return the average loss. WorkerError
        where another process has ended."""
        if self.size == 1:
            return loss
        average = loss.detach().clone()
        gradients = [parameter.grad for parameter in model.parameters()]
        self.average([gradient for gradient in gradients if gradient is not None] + [average])
        return average

    def average(self, tensors: list[torch.Tensor]) -> None:
        """Average tensors over processes, in place. WorkerError where another process has ended."""
        if self.size == 1:
            return
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        with _worker_error():
            dist.all_reduce(flat)
        parts = (flat / self.size).split([tensor.numel() for tensor in tensors])
        for tensor, averaged in zip(tensors, parts, strict=True):
            tensor.copy_(averaged.view_as(tensor))

    def broadcast(self, value: float) -> float:
        """Return the value of rank 0, which does not wait for the others. WorkerError where one of
        them has ended."""
        if self.size == 1:
            return value
        sent = torch.tensor([value], dtype=torch.float64)
        with _worker_error():
            dist.broadcast(sent, src=0)
        return sent.item()

    def gather(self, state: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the states of all processes to rank 0, an empty list to the others.
        WorkerError where one of them has ended."""
        states: list[Any] = [None] * self.size if self.rank == 0 else []
        with _worker_error():
            dist.gather_object(state, states or None, dst=0)
        return states


@contextmanager
def _worker_error() -> Iterator[None]:
    """Turn gloo's error, a closed connection, into a WorkerError."""
    try:
        yield
    except RuntimeError as error:
        raise WorkerError("a training process has ended") from error


@contextmanager
def processes(
    size: int, follow: Callable[..., None], *arguments: Any, backend: str = BACKENDS["cpu"]
) -> Iterator[Group]:
    """Start processes of ranks 1 to size - 1, which run follow(group,
    *arguments), and yield the group of rank 0.

    The threads of this process are divided among them. Workers are killed at the end of the block;
    WorkerError if one of them ends before.
    """
    if size == 1:
        yield Group()
        return
    threads = torch.get_num_threads()
    of_each = max(1, threads // size)
    spawn = get_context("spawn")
    with TemporaryDirectory(prefix="scanline-") as folder:
        started: list[tuple[BaseProcess, connection.Connection]] = []
        try:
            for rank in range(1, size):
                ours, theirs = spawn.Pipe(duplex=False)
                worker = spawn.Process(
                    target=_run_worker,
                    args=(theirs, backend, rank, size, folder, of_each, follow, arguments),
                    daemon=True,
                )
                try:
                    with safe_path():
                        worker.start()
                # it ended at once; a later one is of standard output
                except BrokenPipeError as error:
                    raise WorkerError("a training process could not start") from error
                theirs.close()
                started.append((worker, ours))
            # gloo itself would wait forever for a process that could not start
            if not all(_is_ready(worker, ready) for worker, ready in started):
                raise WorkerError("a training process could not start")
            torch.set_num_threads(of_each)
            _join(backend, 0, size, folder)
            yield Group(0, size)
        except WorkerError as error:
            raise WorkerError(_reason(started)) from error
        finally:
            for process, _ in started:
                process.kill()  # it has nothing to write
                process.join()
            torch.set_num_threads(threads)
            if dist.is_initialized():
                dist.destroy_process_group()


def _run_worker(
    ready: connection.Connection,
    backend: str,
    rank: int,
    size: int,
    folder: str,
    threads: int,
    follow: Callable[..., None],
    arguments: tuple[Any, ...],
) -> None:
    # Ctrl-C reaches every process of the terminal; rank 0 ends the rest
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
    ready.send(True)
    _join(backend, rank, size, folder)
    try:
        follow(Group(rank, size), *arguments)
    except WorkerError:
        os._exit(0)  # another process says why
    except Exception as error:
        reason = memory_reason(error)
        if reason is not None:
            ready.send(reason)
            os._exit(1)
        raise


def _is_ready(worker: BaseProcess, ready: connection.Connection) -> bool:
    """Wait until the worker has reported that it runs; return False if it ended before."""
    connection.wait([ready, worker.sentinel])
    try:
        return ready.poll() and ready.recv()
    except EOFError:
        return False


def _join(backend: str, rank: int, size: int, folder: str) -> None:
    """Join the process group over the loopback device: the name of a machine need not have an
    address."""
    loopback = [name for _, name in socket.if_nameindex() if name in ("lo", "lo0")]
    if loopback:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback[0])
    rendezvous = (Path(folder) / "rendezvous").as_uri()
    dist.init_process_group(
        backend, init_method=rendezvous, rank=rank, world_size=size, timeout=AVERAGE_TIMEOUT
    )


def _reason(started: list[tuple[BaseProcess, connection.Connection]]) -> str:
    """Return which worker ended, and how."""
    for rank, (worker, reasons) in enumerate(started, start=1):
        worker.join(SECONDS_TO_END if rank == 1 else 0)
        code = worker.exitcode
        if code:
            how = f"ended with exit code {code}"
            if code < 0:
                how = f"was ended by {signal.Signals(-code).name}"
            if code == -signal.SIGKILL:
                how += ", as when the machine's memory is full"
            with suppress(EOFError, OSError):
                if reasons.poll():
                    how += f", since {reasons.recv()}"
            return f"training process {rank + 1} of {len(started) + 1} {how}"
    return "a training process has ended"
