"""The network on a GPU: a byte of many images is some forty launches of our own kernels and nothing else, recorded
once into a CUDA graph for each of a few sizes and played back for every byte.

Positions, draws and forced bytes live on the device; the host looks at positions once in a call of `advance`, to
know who is still painting, and hands the graph their seats. No kernel computes a row otherwise in other company,
and each is made of programs of one shape, so neither the size of the graph nor the place in it changes a bit.
Where there is no GPU the same launches run one by one in Triton's interpreter, for tests.
"""

from collections.abc import Callable

import torch

from scanline.kernels import mixture
from scanline.model.backends.cuda_step import Buffers, KernelSequence
from scanline.model.backends.slots import SlotPool
from scanline.model.evaluation.likelihood import LN2
from scanline.model.network.transformer import Transformer
from scanline.model.state import State

SIZES = (1, 8, 64, 128, 256, 512, 1024, 2048, 4096)  # images of a graph; the activations of 4,096 stay in the L2
BRANCHES = 2  # side by side in a graph, so that one multiplies while the other waits for its states
BRANCH = 1024  # images that are worth a branch
HOPPER = (9, 0)  # the first GPUs whose launches can be chained


class CudaBackend:
    """Triton kernels in CUDA graphs; s rests in `state_dtype` (float32, float16 or bfloat16) between bytes."""

    rows = 1

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
        self.on_gpu = device.type == "cuda"
        self.name = f"triton ({torch.cuda.get_device_name(device) if self.on_gpu else 'interpreter'})"
        with torch.inference_mode():
            chainable = self.on_gpu and torch.cuda.get_device_capability(device) >= HOPPER
            self.launches = KernelSequence(model, chained and chainable)
            self.work = Buffers.of(self.config, sizes[-1], device)
        self.slots: SlotPool | None = None  # those that the graphs were recorded for
        self.graphs: dict[int, Callable[[], None]] = {}

    @torch.inference_mode()
    def warm_up(self, slots: SlotPool) -> None:
        """Records a graph of every size that the slots may fill, and reads an image once."""
        rows = len(slots.images)
        self.slots, self.graphs = slots, {}
        for size in self.sizes:
            self.graphs[size] = self._ready(slots, size)
            if size >= rows:
                break
        state = State.zeros(self.config, 1, self.device, self.state_dtype)
        self.read(torch.zeros(1, self.config.bytes, dtype=torch.uint8, device=self.device), state, self.config.bytes)

    @torch.inference_mode()
    def advance(self, slots: SlotPool, steps: int) -> None:
        """Those who are not done are seated side by side, as many as a graph takes, whichever rows are theirs."""
        position = slots.state.position.cpu()
        busy = (position < self.config.bytes).nonzero().flatten()
        if not len(busy):
            return
        steps = min(steps, self.config.bytes - int(position[busy].min()))
        if slots is not self.slots:
            self.slots, self.graphs = slots, {}
        for seats in busy.split(self.sizes[-1]):
            size = next(size for size in self.sizes if size >= len(seats))
            if size not in self.graphs:
                self.graphs[size] = self._ready(slots, size)
            self.work.seats[:size] = -1
            self.work.seats[: len(seats)] = seats.to(self.device)
            for _ in range(steps):
                self.graphs[size]()

    def read(self, images: torch.Tensor, state: State, stop: int) -> torch.Tensor:
        """Through the parallel view, each image alone, in shapes of its own: company cannot matter."""
        start = int(state.position[0])
        with torch.inference_mode():
            found = []
            for row in range(len(images)):
                image = images[row : row + 1]
                parameters = self.model.parallel(image, state.rows(row, row + 1), stop)
                found.append(-mixture.log_prob(parameters, image[:, start:stop], self.config.scale).double() / LN2)
            return torch.cat(found)

    def close(self) -> None:
        self.slots, self.graphs = None, {}

    def _ready(self, slots: SlotPool, size: int) -> Callable[[], None]:
        """One byte of the images in the first `size` seats of the work, to be played any number of times."""
        branches = max(1, min(self.branches, size // BRANCH))
        parts = [self.work.part(i * size // branches, (i + 1) * size // branches) for i in range(branches)]

        def one_by_one() -> None:
            for part in parts:
                self.launches.run(slots, part)

        if not self.on_gpu:
            return one_by_one
        self.work.seats[:size] = -1  # nobody is touched by the run that compiles the kernels before they are recorded
        one_by_one()
        torch.cuda.synchronize(self.device)
        return self._record(slots, parts)

    def _record(self, slots: SlotPool, parts: list[Buffers]) -> Callable[[], None]:
        """The launches of all parts, side by side, as a graph."""
        graph = torch.cuda.CUDAGraph()
        others = [(torch.cuda.Stream(self.device), part) for part in parts[1:]]
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            trunk = torch.cuda.current_stream(self.device)
            for stream, part in others:
                stream.wait_stream(trunk)
                with torch.cuda.stream(stream):
                    self.launches.run(slots, part)
            self.launches.run(slots, parts[0])
            for stream, _ in others:
                trunk.wait_stream(stream)
        return graph.replay
