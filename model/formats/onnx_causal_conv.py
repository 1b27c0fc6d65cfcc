"""Mixing with painted neighbours in an ONNX graph: `kernels/causal_conv` for runtimes
without torch, of one pixel an image.

Those of every mixing are read before the first, as all of them were painted in earlier steps.
"""

import numpy as np
import torch

from scanline.kernels.causal_conv import OFFSETS
from scanline.model.formats.onnx_graph import Graph
from scanline.model.network.block import Block
from scanline.model.network.layer import Layer
from scanline.model.network.transformer import Transformer


class Neighbours:
    """What the mixings of a step read and keep, of the pixels of
    the bytes at `position` [B] int32.
    """

    def __init__(self, graph: Graph, model: Transformer, recent: str, position: str) -> None:
        """recent: [E, B, R, D] float32."""
        config = model.config
        self.graph = graph
        self.recent = recent
        self.seen = list[str]()
        ups, lefts = (graph.constant(each, "int32") for each in zip(*OFFSETS, strict=True))
        width = graph.constant(config.width, "int32")
        zero = graph.constant(0, "int32")
        rows = graph.constant(config.conv_pixels, "int32")
        place = graph.node("Unsqueeze", position, graph.ints(1))
        pixel = graph.node("Div", place, graph.constant(config.channels, "int32"))  # [B, 1]
        # of each neighbour: [B, K]
        column = graph.node("Sub", graph.node("Mod", pixel, width), lefts)
        inside = graph.node("GreaterOrEqual", graph.node("Div", pixel, width), ups)
        inside = graph.node("And", inside, graph.node("GreaterOrEqual", column, zero))
        inside = graph.node("And", inside, graph.node("Less", column, width))
        back = graph.node("Add", graph.node("Mul", ups, width), lefts)
        near = graph.cast(graph.node("Mod", graph.node("Sub", pixel, back), rows), "int64")
        index = graph.node("Unsqueeze", near, graph.ints(0, 3))  # [1, B, K, 1]
        index = graph.node("Expand", index, graph.ints(config.convolutions, 1, 1, 1))
        numbers = graph.node("GatherND", recent, index, batch_dims=2)  # [E, B, K, D]
        inside = graph.node("Unsqueeze", inside, graph.ints(2))
        numbers = graph.node("Where", inside, numbers, graph.constant(0, "float32"))
        parts: list[Block | Layer] = [*model.blocks, *model.layers]
        weight = graph.weight(
            torch.stack([part.taps for part in parts if part.taps is not None]).unsqueeze(1)
        )
        sums = graph.node(
            "ReduceSum", graph.node("Mul", weight, numbers), graph.ints(2), keepdims=0
        )
        self.sums = graph.nodes(
            "Split", config.convolutions, sums, axis=0, num_outputs=config.convolutions
        )  # each [1, B, D]
        each = graph.constant(np.arange(config.conv_pixels), "int32")
        own = graph.node("Equal", graph.node("Mod", pixel, rows), each)
        # the row that the pixel is kept in: [B, R, 1]
        self.own = graph.node("Unsqueeze", own, graph.ints(2))

    def mix(self, x: str, number: int) -> str:
        """Return x [B, D] of mixing `number` with its neighbours. The
        mixings are called in their order.
        """
        self.seen.append(self.graph.node("Unsqueeze", x, self.graph.ints(0, 2)))
        return self.graph.node(
            "Add", x, self.graph.node("Squeeze", self.sums[number], self.graph.ints(0))
        )

    def next_recent(self) -> str:
        """Return [E, B, R, D] after all mixings."""
        return self.graph.node(
            "Where", self.own, self.graph.node("Concat", *self.seen, axis=0), self.recent
        )
