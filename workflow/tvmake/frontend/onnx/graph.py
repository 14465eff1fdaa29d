"""An ONNX graph under preparation: shapes, dtypes and constants of its values, and a builder for nodes."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

from tvmake.errors import InputError
from tvmake.frontend.onnx.external import array_of, is_large

_MISFIT = re.compile(
    r"\[ShapeInferenceError\] Inference error\(s\): \(op_type:(\w+)(?:, node name: (.*?))?\): "
    r"\[ShapeInferenceError\] (Incompatible dimensions|Dimension mismatch in unification)"
)
"""Strict inference's error for operands whose shapes do not fit; its other errors are harmless."""

Shape = tuple[int | str | None, ...]


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The bodies of a node (If, Loop, Scan …)."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Every node, including nodes of bodies."""
    for node in graph.node:
        yield node
        for body in subgraphs(node):
            yield from all_nodes(body)


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """A node's attributes as Python values, with text decoded."""
    values = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in values.items()}


def optional_input(node: onnx.NodeProto, index: int) -> str:
    """The name of an optional input; "" if it is absent."""
    return node.input[index] if index < len(node.input) else ""


def opset_of(model: onnx.ModelProto) -> int:
    """The version of the default operator set; 1 if the model names none, by ONNX's specification."""
    return next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 1)


def value_shape(value: onnx.ValueInfoProto) -> Shape | None:
    """A tensor's shape: ints, dimension names, None for unnamed dimensions; None if the rank is unknown or it is not a tensor.

    Some exporters write -1 for an unnamed dimension.
    """
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type") or not kind.HasField("shape"):
        return None
    return tuple(
        (dim.dim_value if dim.dim_value >= 0 else None) if dim.HasField("dim_value") else (dim.dim_param or None)
        for dim in kind.shape.dim
    )


def fix_shapes(graph: onnx.GraphProto) -> str:
    """The setting that gives dynamic inputs fixed shapes."""
    constants = {tensor.name for tensor in graph.initializer}
    shapes = {value.name: value_shape(value) for value in graph.input if value.name not in constants}
    entries = ", ".join(
        f"{name}: {{shape: [{', '.join(str(size) if isinstance(size, int) else 'SIZE' for size in shape)}]}}"
        for name, shape in shapes.items()
        if shape is not None and not all(isinstance(size, int) for size in shape)
    )
    return f"`inputs: {{{entries or 'NAME: {shape: [SIZE, …]}'}}}`"


def _shape_text(shape: Shape | None) -> str:
    return "?" if shape is None else f"[{', '.join('?' if extent is None else str(extent) for extent in shape)}]"


class Graph:
    """A model's graph with shapes, dtypes and constants by value name.

    Call ``refresh`` after replacing nodes: it infers all three from the model.
    """

    def __init__(self, model: onnx.ModelProto, where: str):
        self.model = model
        self.where = where
        self.large: dict[str, TensorProto] = {}
        self.shapes: dict[str, Shape] = {}
        self.dtypes: dict[str, int] = {}
        self.constants: dict[str, TensorProto] = {}
        self.extents: dict[str, np.ndarray] = {}
        """Partly known lists of dimensions, by value name: ints, dimension names, and None for unknown ones."""
        self.same_shapes: dict[str, str] = {}
        """Results by name, with the value that has the same type and shape, where inference does not find that."""
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
        """Replace large initializers by graph inputs, so that tools do not copy them. ``finish`` restores them."""
        small = []
        for tensor in self.graph.initializer:
            if not is_large(tensor):
                small.append(tensor)
                continue
            copy = TensorProto()
            copy.CopyFrom(tensor)
            self.large[tensor.name] = copy
            self.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
        if self.large:
            del self.graph.initializer[:]
            self.graph.initializer.extend(small)
            # Protobuf frees deleted fields only together with their message: continue with a copy.
            small_model = onnx.ModelProto()
            small_model.CopyFrom(self.model)
            self.model = small_model

    def _check_fit(self) -> None:
        """Refuse operators on tensors whose shapes do not fit; inference ignores them otherwise.

        Raises:
            InputError: names the node and its operands' shapes.
        """
        try:
            shape_inference.infer_shapes(self.model, strict_mode=True, data_prop=True)
        except shape_inference.InferenceError as error:
            match = _MISFIT.match(str(error))
            nodes = [
                node for node in self.graph.node if match and (node.op_type, node.name) == (match[1], match[2] or "")
            ]
            if len(nodes) != 1 or any(subgraphs(nodes[0])):
                return
            shapes = " and ".join(_shape_text(self.shape(name)) for name in nodes[0].input[:2])
            name = f"{nodes[0].op_type} {nodes[0].name or nodes[0].output[0]!r}"
            problem = f"{name} cannot take tensors of the shapes {shapes}: they do not fit"
            raise InputError(self.where, problem, "Export the model again.") from error

    def finish(self) -> onnx.ModelProto:
        """The model with its large initializers restored."""
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

        Rewritten graphs are not checked for types: TVM convolves int32, for instance, which ONNX does not allow. As in ONNX
        Runtime, the declared shapes of outputs are used only where inference gives none.

        Raises:
            InputError: shapes contradict each other.
        """
        del self.graph.value_info[:]
        try:
            inferred = _infer_shapes(_replace_shapeless(self.model, self.same_shapes), check_types)
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
        """The shape if all dimensions are fixed, else None."""
        shape = self.shapes.get(name)
        if shape is None or not all(isinstance(dim, int) for dim in shape):
            return None
        return shape  # type: ignore[return-value]

    def rank(self, name: str) -> int | None:
        shape = self.shapes.get(name)
        return None if shape is None else len(shape)

    def dtype(self, name: str) -> int:
        """The element type, as a TensorProto data type; 0 if unknown."""
        return self.dtypes.get(name, 0)

    def numpy_dtype(self, name: str) -> np.dtype:
        return helper.tensor_dtype_to_np_dtype(self.dtype(name))

    def constant(self, name: str) -> np.ndarray | None:
        """The value of a small constant."""
        tensor = self.constants.get(name)
        return None if tensor is None else numpy_helper.to_array(tensor)

    def weights(self, name: str) -> np.ndarray | None:
        """The value of a constant of any size."""
        tensor = self.constants.get(name) or self.large.get(name)
        return None if tensor is None else array_of(tensor)

    def is_constant(self, name: str) -> bool:
        return name in self.constants or name in self.large

    def fresh(self, name: str) -> str:
        """An unused value name."""
        candidate, index = name, 0
        while candidate in self._names:
            index += 1
            candidate = f"{name}_{index}"
        self._names.add(candidate)
        return candidate

    def add_constant(self, value: np.ndarray, name: str = "const") -> str:
        """Add an initializer, and set it aside if it is large; returns its name."""
        tensor = numpy_helper.from_array(np.ascontiguousarray(value).reshape(np.shape(value)), self.fresh(name))
        if not is_large(tensor):
            self.graph.initializer.append(tensor)
            self.constants[tensor.name] = self.graph.initializer[-1]
        else:
            self.large[tensor.name] = tensor
            self.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
        self.shapes[tensor.name] = tuple(tensor.dims)
        self.dtypes[tensor.name] = tensor.data_type
        return tensor.name


def _infer_shapes(model: onnx.ModelProto, check_types: bool) -> onnx.ModelProto:
    """The model with inferred shapes; the declared shapes of outputs fill in what inference does not know."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    for value in bare.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    inferred = shape_inference.infer_shapes(bare, check_type=check_types, data_prop=True)
    is_completed = False
    for value, declaration in zip(inferred.graph.output, model.graph.output, strict=True):
        known, shape = value_shape(value), value_shape(declaration)
        if shape is None or (known is not None and len(known) != len(shape)):
            continue
        kind = value.type.tensor_type
        if known is None:
            kind.shape.CopyFrom(declaration.type.tensor_type.shape)
            is_completed = True
            continue
        for dim, declared in zip(kind.shape.dim, declaration.type.tensor_type.shape.dim, strict=True):
            if not dim.HasField("dim_value") and declared.WhichOneof("value"):
                is_completed |= declared.HasField("dim_value")
                dim.CopyFrom(declared)
    read = {name for node in all_nodes(model.graph) for name in node.input}
    if is_completed and any(value.name in read for value in inferred.graph.output):
        inferred = shape_inference.infer_shapes(inferred, check_type=check_types, data_prop=True)
    return inferred


SHAPELESS = frozenset({"GroupNormalization", "MeanVarianceNormalization"})
"""Operators whose result has the first input's shape. Repair: `group-norm-shapes`."""


def _replace_shapeless(model: onnx.ModelProto, same_shapes: Mapping[str, str]) -> onnx.ModelProto:
    """A copy of the model for inference, with such operators replaced by Identity; the model itself if it has none.

    Args:
        same_shapes: results of other operators by name, with the value that has the same type and shape.
    """
    if not same_shapes and not any(node.op_type in SHAPELESS for node in all_nodes(model.graph)):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    nodes = list(copy.graph.node)
    del copy.graph.node[:]
    for node in nodes:
        copied = {name: same_shapes[name] for name in node.output if name in same_shapes}
        node.output[:] = [f"{name} of the loop" if name in copied else name for name in node.output]
        copy.graph.node.append(node)
        copy.graph.node.extend(helper.make_node("Identity", [value], [name]) for name, value in copied.items())
    for node in all_nodes(copy.graph):
        if node.op_type in SHAPELESS and node.domain in ("", "ai.onnx"):
            node.op_type = "Identity"
            del node.input[1:], node.attribute[:]
    return copy


def depends_on_data(name: str, graph: Graph) -> bool:
    """Whether a value depends on an input's elements, not only on shapes and constants."""
    inputs = {value.name for value in graph.graph.input} - set(graph.large)
    return any(source in inputs for source in sources(name, graph.graph))


def sources(name: str, graph: onnx.GraphProto) -> Iterator[str]:
    """The inputs and initializers that a value is computed from, without those of which only the shape is read."""
    producers = {output: node for node in graph.node for output in node.output}
    pending, seen = [name], set()
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        node = producers.get(current)
        if node is None:
            yield current
        elif node.op_type not in ("Shape", "Size"):
            pending.extend(node.input)


class Builder:
    """Builds the nodes that replace one node. Every method returns the name of its result.

    Operators have the form of the model's opset (axes as attribute or as input).
    """

    def __init__(self, graph: Graph, prefix: str):
        self.graph = graph
        self.prefix = prefix
        self.nodes: list[onnx.NodeProto] = []

    def op(self, operator: str, *inputs: str, **values: Any) -> str:
        return self.ops(operator, 1, *inputs, **values)[0]

    def ops(self, operator: str, outputs: int, *inputs: str, **values: Any) -> list[str]:
        names = [self.graph.fresh(f"{self.prefix}_{operator}") for _ in range(outputs)]
        present = {key: value for key, value in values.items() if value is not None}
        self.nodes.append(helper.make_node(operator, list(inputs), names, name=names[0], **present))
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
"""Builds a node's replacement and returns the names that replace its outputs; None leaves the node unchanged."""
