"""Unroll TFLite's counting loops, which Keras' recurrent layers become: one copy of the body for each step.

Repair: `tflite-loops`.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tflite

from tvmake.frontend.tflite.dequantized_operators import RealConverter

from tvm import relax, tirx  # isort: skip
from tvm.relax.frontend.tflite.tflite_frontend import ExprTable, get_tensor_name  # isort: skip

MAX_STEPS = 512

COMPUTED: Mapping[str, Callable[..., Any]] = {
    "ADD": np.add,
    "SUB": np.subtract,
    "MUL": np.multiply,
    "MAXIMUM": np.maximum,
    "MINIMUM": np.minimum,
    "LESS": np.less,
    "LESS_EQUAL": np.less_equal,
    "GREATER": np.greater,
    "GREATER_EQUAL": np.greater_equal,
    "EQUAL": np.equal,
    "NOT_EQUAL": np.not_equal,
    "LOGICAL_AND": np.logical_and,
    "LOGICAL_OR": np.logical_or,
    "LOGICAL_NOT": np.logical_not,
    "RESHAPE": lambda data, shape: np.reshape(data, shape.tolist()),
    "PACK": lambda *values: np.stack(values),
    "CONCATENATION": lambda *values: np.concatenate(values),
}
"""Of whole numbers and truth values that are known, along the first axis; none of them rounds."""

Value = Any
"""What a loop carries along: an array where it is known, else an expression."""


class DataDependentLoopError(Exception):
    """A loop whose number of steps is not known."""


class LoopConverter(RealConverter):
    """TVM's converter, which writes loops out and computes what they count."""

    def __init__(self, *given: Any):
        super().__init__(*given)
        self.known: dict[int, np.ndarray] = {}
        """Of a loop's body, the tensors that do not depend on the network's inputs, by their places."""
        self.is_body = False

    def get_tensor_value(self, tensor_wrapper: Any, is_sparse: bool = False) -> Any:
        """A constant, or what a loop has counted."""
        if (found := self.known.get(tensor_wrapper.tensor_idx)) is not None:
            return found
        return super().get_tensor_value(tensor_wrapper, is_sparse)

    def get_expr(self, input_tensor_idx: int) -> Any:
        """A tensor's expression; what a loop has counted as a constant."""
        known = self.known.get(input_tensor_idx)
        return super().get_expr(input_tensor_idx) if known is None else relax.const(known)

    def convert_while(self, op: Any) -> Any:
        """One copy of the body for each step."""
        options = tflite.WhileOptions()
        options.Init(op.BuiltinOptions().Bytes, op.BuiltinOptions().Pos)
        values = [self._value(tensor) for tensor in self.get_input_tensors(op)]
        for _ in range(MAX_STEPS + 1):
            (goes_on,) = self._run(options.CondSubgraphIndex(), values)
            if not isinstance(goes_on, np.ndarray):
                break
            if not goes_on.all():
                found = [relax.const(value) if isinstance(value, np.ndarray) else value for value in values]
                return relax.Tuple(found) if len(found) > 1 else found[0]
            values = self._run(options.BodySubgraphIndex(), values)
        raise DataDependentLoopError

    def _run(self, subgraph: int, values: list[Value]) -> list[Value]:
        """What a subgraph makes of values."""
        graph = self.model.Subgraphs(subgraph)
        inner = type(self)(self.model, graph, ExprTable(), self.bb, self.conversion_state)
        inner.is_body = True
        for place, value in zip(graph.InputsAsNumpy().tolist(), values, strict=True):
            if isinstance(value, np.ndarray):
                inner.known[place] = value
            else:
                inner.exp_tab.set_expr(get_tensor_name(graph, place), value)
        inner.convert_op_to_relax()
        return [inner._value(tensor) for tensor in inner.get_tensors(graph.OutputsAsNumpy().tolist())]

    def _value(self, tensor: Any) -> Value:
        if (found := self._constant(tensor)) is not None:
            return found
        return self.bb.normalize(self.get_tensor_expr(tensor))

    def _constant(self, tensor: Any) -> np.ndarray | None:
        """What is known of a tensor of whole numbers or truth values, or without elements."""
        if (found := self.known.get(tensor.tensor_idx)) is not None:
            return found
        is_held = tensor.tensor_idx >= 0 and tensor.buffer.DataLength() and not self.has_expr(tensor.tensor_idx)
        if not is_held or self.get_tensor_type_str(tensor.tensor.Type()) not in ("int32", "int64", "bool"):
            return None
        return np.asarray(super().get_tensor_value(tensor))

    def _extents(self, tensor: Any) -> np.ndarray | None:
        """Those of a tensor, where they are fixed."""
        shape = self.bb.normalize(self.get_tensor_expr(tensor)).ty.shape
        fixed = shape is not None and all(isinstance(extent, tirx.IntImm) for extent in shape)
        return np.array([int(extent) for extent in shape], "int64") if fixed else None

    def _converted(self, name: str, convert: Callable[..., Any], op: Any) -> Any:
        """Nothing where a body's operator is computed here."""
        if name == "WHILE":
            return convert(op=op)
        (place,) = op.OutputsAsNumpy().tolist()[:1]
        if self.is_body or place not in self.subgraph.OutputsAsNumpy():
            tensors = self.get_input_tensors(op)
            values = [self._constant(tensor) for tensor in tensors]
            if name == "SHAPE" and (extents := self._extents(tensors[0])) is not None:
                self.known[place] = extents.astype(self.get_tensor_type_str(self.subgraph.Tensors(place).Type()))
                return None
            if name in COMPUTED and all(value is not None for value in values):
                self.known[place] = np.asarray(COMPUTED[name](*values))
                return None
            if name == "SLICE" and values[2] is not None and 0 in values[2]:
                kind = self.get_tensor_type_str(tensors[0].tensor.Type())
                self.known[place] = np.zeros([max(int(extent), 0) for extent in values[2]], kind)
                return None
            if name == "CONCATENATION" and any(value is not None and not value.size for value in values):
                options = tflite.ConcatenationOptions()
                options.Init(op.BuiltinOptions().Bytes, op.BuiltinOptions().Pos)
                kept = [one for one, value in zip(tensors, values, strict=True) if value is None or value.size]
                return relax.op.concat([self.get_tensor_expr(one) for one in kept], axis=options.Axis())
        return super()._converted(name, convert, op)
