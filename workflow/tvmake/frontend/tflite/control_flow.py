"""Unroll TFLite's counting loops, to which Keras converts recurrent layers: one copy of the body per step. Compute both branches.

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
    "FLOOR_DIV": np.floor_divide,
    "FLOOR_MOD": np.mod,
    "RANGE": lambda start, limit, delta: np.arange(int(start), int(limit), int(delta), dtype=start.dtype),
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
    "CAST": np.asarray,
    "GATHER": lambda data, indices: np.take(data, indices, axis=0),
    "REDUCE_PROD": lambda data, axes: np.prod(data, axis=tuple(np.ravel(axes).tolist())),
    "PACK": lambda *values: np.stack(values),
    "CONCATENATION": lambda *values: np.concatenate(values),
}
"""Functions on known integers and booleans, along the first axis; none of them rounds."""

Value = Any
"""A loop-carried value: an array if it is known, else an expression."""


class DataDependentLoopError(Exception):
    """A loop whose number of steps is unknown."""


class ControlFlowConverter(RealConverter):
    """TVM's converter with unrolled loops, whose counters it computes, and with branches in the graph that contains them."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.known: dict[int, np.ndarray] = {}
        """Values of a subgraph's tensors that do not depend on the network's inputs, by the tensors' indices."""
        self.is_body = False

    def get_tensor_value(self, tensor_wrapper: Any, is_sparse: bool = False) -> Any:
        """A constant, or a known value of a loop."""
        if (value := self.known.get(tensor_wrapper.tensor_idx)) is not None:
            return value
        return super().get_tensor_value(tensor_wrapper, is_sparse)

    def get_expr(self, input_tensor_idx: int) -> Any:
        """A tensor's expression; a known value of a loop as a constant."""
        known = self.known.get(input_tensor_idx)
        return super().get_expr(input_tensor_idx) if known is None else relax.const(known)

    def convert_while(self, op: Any) -> Any:
        """Copy the body once per step."""
        options = tflite.WhileOptions()
        options.Init(op.BuiltinOptions().Bytes, op.BuiltinOptions().Pos)
        values = [self._value(tensor) for tensor in self.get_input_tensors(op)]
        for _ in range(MAX_STEPS + 1):
            (condition,) = self._run(options.CondSubgraphIndex(), values)
            if not isinstance(condition, np.ndarray):
                break
            if not condition.all():
                results = [*map(_expression, values)]
                return relax.Tuple(results) if len(results) > 1 else results[0]
            values = self._run(options.BodySubgraphIndex(), values)
        raise DataDependentLoopError

    def convert_if(self, op: Any) -> Any:
        """Compute both branches, and select the results, as the import of ONNX does.

        In TVM's functions of branches, weights are arguments: each run would change their layout.
        """
        options = tflite.IfOptions()
        options.Init(op.BuiltinOptions().Bytes, op.BuiltinOptions().Pos)
        condition, *inputs = [self._value(tensor) for tensor in self.get_input_tensors(op)]
        branches = [options.ThenSubgraphIndex(), options.ElseSubgraphIndex()]
        if isinstance(condition, np.ndarray):
            results = [_expression(value) for value in self._run(branches[not condition.all()], inputs)]
        else:
            condition = relax.op.reshape(condition, ())
            pairs = zip(*(self._run(branch, inputs) for branch in branches), strict=True)
            results = [relax.op.where(condition, *map(_expression, pair)) for pair in pairs]
        return relax.Tuple(results) if len(results) > 1 else results[0]

    def _run(self, subgraph: int, values: list[Value]) -> list[Value]:
        """Convert a subgraph on values; returns its outputs."""
        graph = self.model.Subgraphs(subgraph)
        inner = type(self)(self.model, graph, ExprTable(), self.bb, self.conversion_state)
        inner.is_body = True
        for index, value in zip(graph.InputsAsNumpy().tolist(), values, strict=True):
            if isinstance(value, np.ndarray):
                inner.known[index] = value
            else:
                inner.exp_tab.set_expr(get_tensor_name(graph, index), value)
        inner.convert_op_to_relax()
        return [inner._value(tensor) for tensor in inner.get_tensors(graph.OutputsAsNumpy().tolist())]

    def _value(self, tensor: Any) -> Value:
        if (value := self._constant(tensor)) is not None:
            return value
        return self.bb.normalize(self.get_tensor_expr(tensor))

    def _constant(self, tensor: Any) -> np.ndarray | None:
        """The known value of a tensor of integers or booleans, or without elements; None if unknown."""
        if (value := self.known.get(tensor.tensor_idx)) is not None:
            return value
        if tensor.tensor_idx < 0 or self.has_expr(tensor.tensor_idx):
            return None
        kind = self.get_tensor_type_str(tensor.tensor.Type())
        if kind not in ("int32", "int64", "bool"):
            return None
        if not tensor.buffer.DataLength():
            shape = tensor.tensor.ShapeAsNumpy() if tensor.tensor.ShapeLength() else np.ones(1, int)
            return None if shape.all() else np.zeros(shape, kind)
        return np.asarray(super().get_tensor_value(tensor))

    def _extents(self, tensor: Any) -> np.ndarray | None:
        """The dimensions of a tensor; None if one is dynamic."""
        shape = self.bb.normalize(self.get_tensor_expr(tensor)).ty.shape
        fixed = shape is not None and all(isinstance(extent, tirx.IntImm) for extent in shape)
        return np.array([int(extent) for extent in shape], "int64") if fixed else None

    def _convert_on_floats(self, name: str, convert: Callable[..., Any], op: Any) -> Any:
        """Convert an operator; None if its value is known and recorded in ``known``."""
        if name in ("WHILE", "IF"):
            return convert(op=op)
        (index,) = op.OutputsAsNumpy().tolist()[:1]
        if self.is_body or index not in self.subgraph.OutputsAsNumpy():
            tensors = self.get_input_tensors(op)
            values = [self._constant(tensor) for tensor in tensors]
            if name == "SHAPE" and (extents := self._extents(tensors[0])) is not None:
                self.known[index] = extents.astype(self.get_tensor_type_str(self.subgraph.Tensors(index).Type()))
                return None
            if name in COMPUTED and all(value is not None for value in values):
                kind = self.get_tensor_type_str(self.subgraph.Tensors(index).Type())
                self.known[index] = np.asarray(COMPUTED[name](*values)).astype(kind)
                return None
            known = [value for value in values if value is not None]
            if name == "SPLIT_V" and len(known) == len(values):
                data, sizes, axis = known
                parts = np.split(data, np.cumsum(sizes)[:-1], int(axis))
                self.known.update(zip(op.OutputsAsNumpy().tolist(), parts, strict=True))
                return None
            if name == "STRIDED_SLICE" and len(known) == len(values):
                self.known[index] = np.asarray(known[0][_slices(op, *known[1:])])
                return None
            if name == "SLICE" and values[2] is not None and 0 in values[2]:
                kind = self.get_tensor_type_str(tensors[0].tensor.Type())
                self.known[index] = np.zeros([max(int(extent), 0) for extent in values[2]], kind)
                return None
            if name == "CONCATENATION" and any(value is not None and not value.size for value in values):
                options = tflite.ConcatenationOptions()
                options.Init(op.BuiltinOptions().Bytes, op.BuiltinOptions().Pos)
                parts = [tensor for tensor, value in zip(tensors, values, strict=True) if value is None or value.size]
                return relax.op.concat([self.get_tensor_expr(tensor) for tensor in parts], axis=options.Axis())
        return super()._convert_on_floats(name, convert, op)


def _expression(value: Value) -> Any:
    return relax.const(value) if isinstance(value, np.ndarray) else value


def _slices(op: Any, starts: Any, ends: Any, strides: Any) -> tuple[Any, ...]:
    """The slices of a STRIDED_SLICE, one for each axis; its operands are known."""
    options = tflite.StridedSliceOptions()
    options.Init(op.BuiltinOptions().Bytes, op.BuiltinOptions().Pos)
    slices: list[Any] = []
    for axis, (start, end, stride) in enumerate(zip(starts.tolist(), ends.tolist(), strides.tolist(), strict=True)):
        has = {name: bool(mask >> axis & 1) for name, mask in (
            ("begin", options.BeginMask()), ("end", options.EndMask()), ("ellipsis", options.EllipsisMask()),
            ("new", options.NewAxisMask()), ("shrink", options.ShrinkAxisMask()),
        )}  # fmt: skip
        if has["ellipsis"] or has["new"]:
            slices.append(... if has["ellipsis"] else None)
        elif has["shrink"]:
            slices.append(start)
        else:
            slices.append(slice(None if has["begin"] else start, None if has["end"] else end, stride))
    return tuple(slices)
