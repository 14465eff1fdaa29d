"""An ONNX graph under preparation: what is known of its values, and how nodes are added."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

from tvmake.errors import InputError

_MISFIT = re.compile(
    r"\[ShapeInferenceError\] Inference error\(s\): \(op_type:(\w+)(?:, node name: (.*?))?\): "
    r"\[ShapeInferenceError\] (Incompatible dimensions|Dimension mismatch in unification)"
)
"""What strict inference says first of a product or a sum of tensors that do not fit; it minds much else that does no harm."""

LARGE_BYTES = 1 << 20
"""Initializers from this size on are set aside while the onnx package's tools, which copy the model, run."""

Shape = tuple[int | str | None, ...]


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The bodies that a node (If, Loop, Scan …) carries."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Every node, those of bodies included."""
    for node in graph.node:
        yield node
        for body in subgraphs(node):
            yield from all_nodes(body)


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """A node's attributes as Python values; text decoded."""
    values = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in values.items()}


def optional_input(node: onnx.NodeProto, index: int) -> str:
    """The name of an optional input; "" when it is absent."""
    return node.input[index] if index < len(node.input) else ""


def opset_of(model: onnx.ModelProto) -> int:
    """The version of the default operator set; 1 when the model names none, as the ONNX specification has it."""
    return next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 1)


def value_shape(value: onnx.ValueInfoProto) -> Shape | None:
    """ShapeValues: ints, dimension names, None for unnamed ones; None when the rank is unknown or it is no tensor."""
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type") or not kind.HasField("shape"):
        return None
    return tuple(dim.dim_value if dim.HasField("dim_value") else (dim.dim_param or None) for dim in kind.shape.dim)


def _shown(shape: Shape | None) -> str:
    return "?" if shape is None else f"[{', '.join('?' if extent is None else str(extent) for extent in shape)}]"


class Graph:
    """A model's graph with shapes, dtypes and constants looked up by value name.

    ``refresh`` derives all three anew from the model; call it after nodes were replaced.
    """

    def __init__(self, model: onnx.ModelProto, where: str):
        self.model = model
        self.where = where
        self.large: dict[str, TensorProto] = {}
        self.shapes: dict[str, Shape] = {}
        self.dtypes: dict[str, int] = {}
        self.constants: dict[str, TensorProto] = {}
        self.extents: dict[str, np.ndarray] = {}
        """Of lists of extents that are not all known: ints, names of dimensions, None; by the values' names."""
        self._names: set[str] = set()
        self._set_large_aside()
        self.refresh(check_types=True)
        self._check_fit()

    @property
    def graph(self) -> onnx.GraphProto:
        return self.model.graph

    @property
    def opset(self) -> int:
        return opset_of(self.model)

    def _set_large_aside(self) -> None:
        """Replace large initializers by graph inputs, so that tools need not copy them. ``finish`` undoes it."""
        small = []
        for tensor in self.graph.initializer:
            if tensor.ByteSize() < LARGE_BYTES:
                small.append(tensor)
                continue
            kept = TensorProto()
            kept.CopyFrom(tensor)
            self.large[tensor.name] = kept
            self.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
        if self.large:
            del self.graph.initializer[:]
            self.graph.initializer.extend(small)
            # Protobuf frees what was deleted only together with its message: go on with a small one.
            lighter = onnx.ModelProto()
            lighter.CopyFrom(self.model)
            self.model = lighter

    def _check_fit(self) -> None:
        """Refuse products and sums of tensors that do not fit, which inference passes over otherwise.

        Raises:
            InputError: naming the node, and what goes into it.
        """
        try:
            shape_inference.infer_shapes(self.model, strict_mode=True, data_prop=True)
        except shape_inference.InferenceError as error:
            found = _MISFIT.match(str(error))
            named = [
                node for node in self.graph.node if found and (node.op_type, node.name) == (found[1], found[2] or "")
            ]
            if len(named) != 1 or any(subgraphs(named[0])):
                return
            shapes = " and ".join(_shown(self.shape(name)) for name in named[0].input[:2])
            what = f"{named[0].op_type} {named[0].name or named[0].output[0]!r}"
            problem = f"{what} cannot take tensors of the shapes {shapes}: they do not fit"
            raise InputError(self.where, problem, "Export the model again.") from error

    def finish(self) -> onnx.ModelProto:
        """The model with its large initializers back in place."""
        inputs = [value for value in self.graph.input if value.name not in self.large]
        del self.graph.input[:]
        self.graph.input.extend(inputs)
        while self.large:
            # One at a time, so that two copies of the weights never exist together.
            name = next(iter(self.large))
            self.graph.initializer.append(self.large.pop(name))
        return self.model

    def refresh(self, check_types: bool = False) -> None:
        """Infer shapes and collect constants.

        Rewritten graphs are not checked for types: TVM convolves int32, for instance, which ONNX does not admit.
        What the file declares of its outputs counts only where it does not follow from the operators, as in ONNX Runtime.

        Raises:
            InputError: shapes that contradict each other.
        """
        del self.graph.value_info[:]
        try:
            inferred = _inferred(_inferable(self.model), check_types)
        except shape_inference.InferenceError as error:
            line = " ".join(str(error).split())
            raise InputError(
                self.where, f"the graph's shapes contradict each other: {line[:300]}", "Export the model again."
            ) from error
        self.graph.value_info.extend(inferred.graph.value_info)
        self.shapes, self.dtypes = {}, {}
        for value in (*self.graph.input, *inferred.graph.value_info, *inferred.graph.output):
            shape = value_shape(value)
            if shape is not None:
                self.shapes[value.name] = shape
            if value.type.HasField("tensor_type"):
                self.dtypes[value.name] = value.type.tensor_type.elem_type
        self.constants, self.extents = {}, {}
        for tensor in self.graph.initializer:
            self.constants[tensor.name] = tensor
            self.shapes[tensor.name] = tuple(tensor.dims)
            self.dtypes[tensor.name] = tensor.data_type
        self._names = {name for node in all_nodes(self.graph) for name in (*node.input, *node.output)}
        self._names |= set(self.dtypes) | {value.name for value in self.graph.output}

    def shape(self, name: str) -> Shape | None:
        return self.shapes.get(name)

    def static_shape(self, name: str) -> tuple[int, ...] | None:
        """The extents when all are known."""
        shape = self.shapes.get(name)
        if shape is None or not all(isinstance(dim, int) for dim in shape):
            return None
        return shape  # type: ignore[return-value]

    def rank(self, name: str) -> int | None:
        shape = self.shapes.get(name)
        return None if shape is None else len(shape)

    def dtype(self, name: str) -> int:
        """The element type, as a TensorProto data type; 0 when it is unknown."""
        return self.dtypes.get(name, 0)

    def numpy_dtype(self, name: str) -> np.dtype:
        return helper.tensor_dtype_to_np_dtype(self.dtype(name))

    def constant(self, name: str) -> np.ndarray | None:
        """The value of a (small) constant."""
        tensor = self.constants.get(name)
        return None if tensor is None else numpy_helper.to_array(tensor)

    def weights(self, name: str) -> np.ndarray | None:
        """The value of a constant of any size."""
        tensor = self.constants.get(name) or self.large.get(name)
        return None if tensor is None else numpy_helper.to_array(tensor)

    def is_constant(self, name: str) -> bool:
        return name in self.constants or name in self.large

    def fresh(self, name: str) -> str:
        """A value name not yet in use."""
        candidate, index = name, 0
        while candidate in self._names:
            index += 1
            candidate = f"{name}_{index}"
        self._names.add(candidate)
        return candidate

    def add_constant(self, value: np.ndarray, name: str = "const") -> str:
        """Add an initializer, which is set aside if it is large; returns its name."""
        tensor = numpy_helper.from_array(np.ascontiguousarray(value).reshape(np.shape(value)), self.fresh(name))
        if tensor.ByteSize() < LARGE_BYTES:
            self.graph.initializer.append(tensor)
            self.constants[tensor.name] = self.graph.initializer[-1]
        else:
            self.large[tensor.name] = tensor
            self.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
        self.shapes[tensor.name] = tuple(tensor.dims)
        self.dtypes[tensor.name] = tensor.data_type
        return tensor.name


def _inferred(model: onnx.ModelProto, check_types: bool) -> onnx.ModelProto:
    """The model with inferred shapes; extents that do not follow from the operators are those that its outputs declare."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    for value in bare.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    inferred = shape_inference.infer_shapes(bare, check_type=check_types, data_prop=True)
    settled = False
    for value, declaration in zip(inferred.graph.output, model.graph.output, strict=True):
        known, shape = value_shape(value), value_shape(declaration)
        if shape is None or (known is not None and len(known) != len(shape)):
            continue
        kind = value.type.tensor_type
        if known is None:
            kind.shape.CopyFrom(declaration.type.tensor_type.shape)
            settled = True
            continue
        for dim, declared in zip(kind.shape.dim, declaration.type.tensor_type.shape.dim, strict=True):
            if not dim.HasField("dim_value") and declared.WhichOneof("value"):
                settled |= declared.HasField("dim_value")
                dim.CopyFrom(declared)
    read = {name for node in all_nodes(model.graph) for name in node.input}
    if settled and any(value.name in read for value in inferred.graph.output):
        inferred = shape_inference.infer_shapes(inferred, check_type=check_types, data_prop=True)
    return inferred


SHAPELESS = frozenset({"GroupNormalization", "MeanVarianceNormalization"})
"""Operators whose results ONNX 1.23 infers no shape of; they are like the first input."""


def _inferable(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model, or one that says of such operators only that the result is like the input."""
    if not any(node.op_type in SHAPELESS for node in all_nodes(model.graph)):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for node in all_nodes(copy.graph):
        if node.op_type in SHAPELESS and node.domain in ("", "ai.onnx"):
            node.op_type = "Identity"
            del node.input[1:], node.attribute[:]
    return copy


def depends_on_data(name: str, graph: Graph) -> bool:
    """Whether a value is computed from an input's elements, not only from shapes and constants."""
    producers = {output: node for node in graph.graph.node for output in node.output}
    inputs = {value.name for value in graph.graph.input} - set(graph.large)
    pending, seen = [name], set()
    while pending:
        current = pending.pop()
        if current in inputs:
            return True
        node = producers.get(current)
        if node is None or current in seen or node.op_type in ("Shape", "Size"):
            continue
        seen.add(current)
        pending.extend(node.input)
    return False


class Builder:
    """Collects the nodes that replace one node. Every method returns the name of its result.

    Operators are emitted in the form the model's opset wants (axes as attribute or as input).
    """

    def __init__(self, graph: Graph, prefix: str):
        self.graph = graph
        self.prefix = prefix
        self.nodes: list[onnx.NodeProto] = []

    def op(self, operator: str, *inputs: str, **values: Any) -> str:
        return self.ops(operator, 1, *inputs, **values)[0]

    def ops(self, operator: str, outputs: int, *inputs: str, **values: Any) -> list[str]:
        names = [self.graph.fresh(f"{self.prefix}_{operator}") for _ in range(outputs)]
        kept = {key: value for key, value in values.items() if value is not None}
        self.nodes.append(helper.make_node(operator, list(inputs), names, name=names[0], **kept))
        return names

    def const(self, value: Any, dtype: Any) -> str:
        return self.graph.add_constant(np.asarray(value, dtype=dtype), f"{self.prefix}_const")

    def ints(self, values: Sequence[int]) -> str:
        return self.const(list(values), np.int64)

    def like(self, value: float, name: str) -> str:
        """A scalar constant of the element type of ``name``."""
        return self.const(value, self.graph.numpy_dtype(name))

    def reshape(self, name: str, shape: Sequence[int]) -> str:
        return self.op("Reshape", name, self.ints(shape))

    def transpose(self, name: str, axes: Sequence[int]) -> str:
        return self.op("Transpose", name, perm=list(axes))

    def slice(self, name: str, axis: int, start: int, stop: int, step: int = 1) -> str:
        return self.op("Slice", name, self.ints([start]), self.ints([stop]), self.ints([axis]), self.ints([step]))

    def unsqueeze(self, name: str, axes: Sequence[int]) -> str:
        return self._with_axes("Unsqueeze", name, axes, 13)

    def squeeze(self, name: str, axes: Sequence[int]) -> str:
        return self._with_axes("Squeeze", name, axes, 13)

    def reduce(self, operator: str, name: str, axes: Sequence[int] | None, keepdims: bool = True) -> str:
        since = 13 if operator == "ReduceSum" else 18
        return self._with_axes(operator, name, axes, since, keepdims=int(keepdims))

    def concat(self, names: Sequence[str], axis: int) -> str:
        return names[0] if len(names) == 1 else self.op("Concat", *names, axis=axis)

    def cast(self, name: str, dtype: int) -> str:
        return self.op("Cast", name, to=dtype)

    def _with_axes(self, operator: str, name: str, axes: Sequence[int] | None, since: int, **values: Any) -> str:
        if axes is None:
            return self.op(operator, name, **values)
        if self.graph.opset >= since:
            return self.op(operator, name, self.ints(axes), **values)
        return self.op(operator, name, axes=list(axes), **values)


Rule = Callable[[onnx.NodeProto, Builder], list[str] | None]
"""Builds what replaces a node and returns the names that replace its outputs; None leaves the node alone."""
