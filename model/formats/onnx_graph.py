"""A builder of ONNX graphs, which also decides how weights are stored.

Arithmetic is float32 whatever the weights are: narrower ones are widened by nodes without other
inputs, which runtimes fold when they load the file. Importing this module raises
MissingExtraError without the extra `onnx`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from scanline.model.base.extras import MissingExtraError

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ModuleNotFoundError:
    raise MissingExtraError("ONNX export", "onnx") from None

OPSET = 20  # the first with Gelu
IR_VERSION = 9  # the lowest for that opset, so that older runtimes read the file too
TYPES = {
    "uint8": TensorProto.UINT8,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "float32": TensorProto.FLOAT,
}
WEIGHTS = ("float32", "float16", "int8")

Sizes = Sequence[int | str]  # a string names a size that is known when the graph runs


class Graph:
    """A graph under construction. Methods return names of values,
    which are inputs of later calls.
    """

    def __init__(self, weights: str) -> None:
        """weights: one of WEIGHTS; int8 stores each row of a matrix with its own
        scale, other weights in float16.
        """
        if weights not in WEIGHTS:
            raise ValueError(f"unknown weights {weights!r}; known: {', '.join(WEIGHTS)}")
        self.weights = weights
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self._nodes: list[Any] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], Any] = {}

    def input(self, name: str, kind: str, shape: Sizes) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, TYPES[kind], shape))
        return name

    def output(self, name: str, kind: str, shape: Sizes, value: str) -> None:
        self._nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, TYPES[kind], shape))

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add an operator with one result and return it."""
        return self.nodes(operator, 1, *inputs, **attributes)[0]

    def nodes(self, operator: str, results: int, *inputs: str, **attributes: Any) -> list[str]:
        """Add an operator with several results and return them."""
        names = [f"{operator}_{len(self._nodes)}_{i}" for i in range(results)]
        self._nodes.append(helper.make_node(operator, inputs, names, **attributes))
        return names

    def cast(self, value: str, kind: str) -> str:
        return self.node("Cast", value, to=TYPES[kind])

    def constant(self, value: Any, kind: str) -> str:
        """Add numbers of a numpy type; equal constants are stored once."""
        array = np.ascontiguousarray(np.asarray(value, kind))
        key = (kind, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = numpy_helper.from_array(
                array, f"constant_{len(self._constants)}"
            )
        return str(self._constants[key].name)

    def ints(self, *values: int) -> str:
        """Add an int64 vector, for a shape, sizes or axes."""
        return self.constant(values, "int64")

    def weight(self, tensor: torch.Tensor) -> str:
        """Add a weight [...], widened to float32; ValueError where float16 cannot hold it."""
        array = tensor.detach().cpu().float().numpy()
        if self.weights == "float32":
            return self.constant(array, "float32")
        if np.abs(array).max() > np.finfo(np.float16).max:
            raise ValueError(
                f"a weight of {np.abs(array).max():g} is beyond float16; export with --weights float32"
            )
        return self.cast(self.constant(array, "float16"), "float32")

    def matrix(self, tensor: torch.Tensor) -> str:
        """Add a weight [rows, columns] that may be int8, each row with a scale
        and at most half a step of error.
        """
        if self.weights != "int8":
            return self.weight(tensor)
        rows = tensor.detach().cpu().float().numpy()
        scales = (
            np.maximum(np.abs(rows).max(axis=1, keepdims=True), np.finfo(np.float32).tiny) / 127
        )
        whole = self.cast(self.constant(np.rint(rows / scales), "int8"), "float32")
        return self.node("Mul", whole, self.constant(scales, "float32"))

    def model(self, name: str, about: str, facts: dict[str, str]) -> onnx.ModelProto:
        """Return the finished graph as a file holds it, with `facts` as its metadata."""
        graph = helper.make_graph(
            self._nodes, name, self.inputs, self.outputs, list(self._constants.values()), about
        )
        model = helper.make_model(
            graph,
            producer_name="scanline",
            ir_version=IR_VERSION,
            opset_imports=[helper.make_opsetid("", OPSET)],
        )
        helper.set_model_props(model, facts)
        return model
