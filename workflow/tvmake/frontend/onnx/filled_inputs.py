"""Inputs of dynamic shape in which every element has one value, such as a mask of ones that grows with a decoder's cache.

Their sizes are those of other inputs, so that the network makes them itself.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tvmake.artifact.extents import evaluate_extent
from tvmake.frontend.onnx.graph import value_shape
from tvmake.frontend.options import InputSpec

_OPERATORS: Mapping[type[ast.operator], str] = {ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul", ast.FloorDiv: "Div"}


@dataclass(frozen=True)
class FilledInput:
    """An input with one value."""

    name: str
    shape: tuple[int | str, ...]
    value: np.ndarray
    """One element of the input's type, [1]."""
    sources: Mapping[str, tuple[str, int]]
    """The input and axis with the size of each dimension in the shape."""

    def array(self, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """The input's value beside others."""

        def size_of(name: str) -> int:
            source, axis = self.sources[name]
            return int(inputs[source].shape[axis])

        sizes = [extent if isinstance(extent, int) else evaluate_extent(extent, size_of) for extent in self.shape]
        return np.full(sizes, self.value[0])


def filled_inputs(model: onnx.ModelProto, entries: Mapping[str, InputSpec]) -> list[FilledInput]:
    """The inputs to which the config gives one number, and whose shape is dynamic and follows from other inputs."""
    chosen = {
        value.name: value
        for value in model.graph.input
        if (spec := entries.get(value.name)) and spec.shape is None and isinstance(spec.value, bool | int | float)
    }
    sources: dict[str, tuple[str, int]] = {}
    for value in model.graph.input:
        for axis, extent in enumerate(value_shape(value) or ()):
            if isinstance(extent, str) and value.name not in entries:
                sources.setdefault(extent, (value.name, axis))
    found = []
    for name, value in chosen.items():
        shape: list[int | str | None] = list(value_shape(value) or ())
        used = {word for extent in shape if isinstance(extent, str) for word in _names(extent)}
        if used and used <= sources.keys() and None not in shape:
            element = np.asarray([entries[name].value]).astype(
                helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            )
            extents = tuple(extent for extent in shape if extent is not None)
            found.append(FilledInput(name, extents, element, {word: sources[word] for word in used}))
    return found


def make_inside(model: onnx.ModelProto, filled: FilledInput) -> None:
    """Let the network make an input itself."""
    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []

    def emit(operator: str, *inputs: str, **attributes: object) -> str:
        output = f"{filled.name}/size{len(nodes)}"
        nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    def constant(number: int) -> str:
        name = f"{filled.name}/constant{len(constants)}"
        constants.append(numpy_helper.from_array(np.array([number], np.int64), name))
        return name

    def size(node: ast.expr) -> str:
        match node:
            case ast.Constant(value=int(number)):
                return constant(number)
            case ast.Name(id=name):
                source, axis = filled.sources[name]
                return emit("Gather", emit("Shape", source), constant(axis))
            case ast.BinOp(left=left, op=kind, right=right) if type(kind) in _OPERATORS:
                return emit(_OPERATORS[type(kind)], size(left), size(right))
        raise ValueError(ast.dump(node))

    sizes = [size(ast.parse(str(extent), mode="eval").body) for extent in filled.shape]
    shape = emit("Concat", *sizes, axis=0) if len(sizes) > 1 else sizes[0]
    nodes.append(
        helper.make_node("ConstantOfShape", [shape], [filled.name], value=numpy_helper.from_array(filled.value))
    )
    kept = [value for value in model.graph.input if value.name != filled.name]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.graph.initializer.extend(constants)
    following = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([*nodes, *following])


def _names(extent: str) -> Iterator[str]:
    """The dimensions in an extent; the extent itself unless it is arithmetic on names."""
    try:
        tree = ast.parse(extent, mode="eval").body
        evaluate_extent(extent, lambda _: 1)
    except (SyntaxError, ValueError):
        yield extent
        return
    yield from (node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
