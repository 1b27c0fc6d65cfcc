"""The network on a GPU: a step of many images is some forty launches of our own kernels and nothing else, recorded
once into a CUDA graph for each of a few sizes and replayed for every step.

Positions, draws and known bytes stay on the device. The host hands the numbers of the slots to step to the graph. Every
kernel runs programs of one shape, and computes an image from that image alone, so neither the size of the graph nor the
place in it changes a bit. Without a GPU the same launches run one by one in Triton's interpreter, for tests.
"""

from collections.abc import Callable
from time import perf_counter

import numpy as np
import torch
import triton

from scanline.model.backends.arrivals import Arrivals
from scanline.model.backends.cuda_step import Buffers, KernelSequence
from scanline.model.backends.pending import Pending
from scanline.model.backends.slots import Fetched, SlotPool
from scanline.model.device import HOPPER
from scanline.model.network.transformer import Transformer
from scanline.model.state import State

SIZES = (1, 8, 64, 128, 256, 512, 1024, 2048, 4096)  # images of a graph; the activations of 4,096 stay in the L2
BRANCHES = 2  # parallel streams in a graph, so that one multiplies while the other waits for its states
BRANCH = 1024  # images that are worth a branch


class CudaBackend:
    """Triton kernels in CUDA graphs; s is stored in `state_dtype` (float32, float16 or bfloat16) between steps."""

    rows = 1
    reads_at_once = 1
    reads_in_pieces = False  # a product of another shape may round differently

    def __init__(
        self,
        model: Transformer,
        state_dtype: torch.dtype = torch.float32,
        sizes: tuple[int, ...] = SIZES,
        branches: int = BRANCHES,
        chained: bool = True,
    ) -> None:
        self.model, self.config, self.state_dtype = model, model.config, state_dtype
        self.sizes, self.branches = sizes, branches
        self.device = device = model.device
        self.on_gpu = self.is_asynchronous = device.type == "cuda"
        processor = torch.cuda.get_device_name(device) if self.on_gpu else "interpreter"
        self.name = f"triton ({processor})"
        # Triton's compiler decides the bits of a step; known bytes are read by torch.
        self.build = f"triton {triton.__version__}, torch {torch.__version__}, {processor}"
        with torch.inference_mode():
            chainable = self.on_gpu and torch.cuda.get_device_capability(device) >= HOPPER
            self.kernels = KernelSequence(model, chained and chainable)
            self.buffers = Buffers.of(self.config, sizes[-1], device)
        self.slots: SlotPool | None = None  # the pool that the graphs were recorded for
        self.graphs: dict[int, Callable[[], None]] = {}

    @torch.inference_mode()
    def warm_up(self, slots: SlotPool) -> None:
        """Records a graph of every size that the slots may fill, and reads an image once."""
        count = len(slots.images)
        self.slots, self.graphs = slots, {}
        for size in self.sizes:
            self.graphs[size] = self._graph(slots, size)
            if size >= count:
                break
        state = State.zeros(self.config, 1, self.device, self.state_dtype)
        image = torch.zeros(1, self.config.bytes, dtype=torch.uint8, device=self.device)
        self.read(image, state, np.array([self.config.bytes]))

    def place(self, pool: SlotPool, arrivals: Arrivals) -> None:
        """As Backend.place."""
        pool.place(arrivals)

    @torch.inference_mode()
    def advance(self, pool: SlotPool, slots: np.ndarray, steps: int) -> Pending[float]:
        """As Backend.advance: the slots are packed into graphs, whichever their numbers are."""
        began = perf_counter()
        # Graphs hold addresses: another pool needs its own.
        if pool is not self.slots:
            self.slots, self.graphs = pool, {}
        for chosen in torch.from_numpy(slots).split(self.sizes[-1]):
            size = next(size for size in self.sizes if size >= len(chosen))
            if size not in self.graphs:
                self.graphs[size] = self._graph(pool, size)
            self.buffers.slots[:size] = -1
            self.buffers.slots[: len(chosen)] = chosen.to(self.device)
            for _ in range(steps):
                self.graphs[size]()

        return Pending.ended(perf_counter() - began)

    def fetch(self, pool: SlotPool, slots: np.ndarray) -> Pending[Fetched]:
        """As Backend.fetch."""
        return pool.fetch(slots)

    def read(self, images: torch.Tensor, state: State, stops: np.ndarray) -> torch.Tensor:
        """As Backend.read, through the parallel view, one image at a time."""
        bits = torch.zeros(len(images), int(stops.max()), dtype=torch.float64, device=self.device)
        with torch.inference_mode():
            for i, stop in enumerate(stops.tolist()):
                image, start = images[i : i + 1], int(state.position[i])
                if start < stop:
                    parameters = self.model.parallel(image, state.part(i, i + 1), stop)
                    bits[i, start:stop] = self.model.bits(parameters, image, start, stop)[0]
        return bits

    def close(self) -> None:
        self.slots, self.graphs = None, {}

    def _graph(self, slots: SlotPool, size: int) -> Callable[[], None]:
        """Returns a function that paints one step of the images in the first `size` of the buffers' slots."""
        branches = max(1, min(self.branches, size // BRANCH))
        parts = [self.buffers.part(i * size // branches, (i + 1) * size // branches) for i in range(branches)]

        def one_by_one() -> None:
            for part in parts:
                self.kernels.run(slots, part)

        if not self.on_gpu:
            return one_by_one
        # Kernels must be compiled before they are recorded; with no slot chosen, this run changes no image.
        self.buffers.slots[:size] = -1
        one_by_one()
        torch.cuda.synchronize(self.device)
        return self._record(slots, parts)

    def _record(self, slots: SlotPool, parts: list[Buffers]) -> Callable[[], None]:
        """Returns the replay of a graph of all parts, each on a stream of its own."""
        graph = torch.cuda.CUDAGraph()
        others = [(torch.cuda.Stream(self.device), part) for part in parts[1:]]
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            trunk = torch.cuda.current_stream(self.device)
            for stream, part in others:
                stream.wait_stream(trunk)
                with torch.cuda.stream(stream):
                    self.kernels.run(slots, part)
            self.kernels.run(slots, parts[0])
            for stream, _ in others:
                trunk.wait_stream(stream)
        return graph.replay
