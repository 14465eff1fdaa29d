"""The inputs of an ONNX model: the config's entries for them, dimension names, and names in Relax."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tvmake.artifact.signature import Signature, TensorSpec
from tvmake.errors import InputError
from tvmake.frontend.onnx.domains import NEVER_IMPORTED, check_domains, refuse_operators
from tvmake.frontend.onnx.filled_inputs import filled_inputs, make_inside
from tvmake.frontend.onnx.graph import Graph, all_nodes, subgraphs, value_shape
from tvmake.frontend.onnx.narrow_types import NARROW, storage_range, storage_type
from tvmake.frontend.onnx.preparations import standardize
from tvmake.frontend.onnx.rewrites.masked_writes import choose_by_masks
from tvmake.frontend.onnx.source import has_external, read_checked
from tvmake.frontend.options import InputSpec

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SIMPLE_EXPRESSION = re.compile(r"([A-Za-z_]\w*)\s*([+*-]|//)\s*([A-Za-z_]\w*|\d+)")
_ARITHMETIC = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__, "//": int.__floordiv__}
_INDEX_FORWARDING = {"Identity", "Cast", "Unsqueeze", "Squeeze", "Reshape", "Flatten"}
PLACEHOLDER_NAMES = ("None", "unknown")
"""Placeholders that exporters write for unnamed dimensions, like ``?`` and ``*``."""

_UNSUPPORTED_TYPES = {TensorProto.STRING, TensorProto.COMPLEX64, TensorProto.COMPLEX128}


def inspect(source: Path, files: Sequence[str] | None = None, opset: int | None = None) -> Signature:
    """A model's declared inputs and outputs; loads neither TVM nor external data.

    Args:
        source: the model's file.
        files: further files that the config lists, as for ``source.read_checked``.
        opset: the opset to convert the model to.

    Raises:
        InputError: the file is not a usable ONNX model, has operators that cannot be imported, its shapes contradict each
            other, or an input is not a tensor.
    """
    where = str(source)
    model = read_checked(source, files)
    check_domains(model, where)
    strip_initializers(model)
    bind_inputs(model, {}, where)
    inputs = [_tensor_spec(value) for value in model.graph.input]
    ranges, indices = value_ranges(model), index_bounds(model)
    signature = Signature(
        inputs=tuple(
            spec.model_copy(update={"range": ranges.get(spec.name), "indices": indices.get(spec.name)})
            for spec in inputs
        ),
        outputs=tuple(_tensor_spec(value) for value in model.graph.output),
    )
    if has_external(model):
        graph = Graph(model, where)
        choose_by_masks(graph)
    else:
        graph = standardize(model, where, opset)
    refuse_operators(graph.graph, where, lambda node: node.op_type in NEVER_IMPORTED)
    return signature


def _tensor_spec(value: onnx.ValueInfoProto) -> TensorSpec:
    shape = value_shape(value) or ()
    return TensorSpec(
        name=value.name,
        relax_name=relax_name(value.name),
        shape=tuple("?" if dim is None else dim for dim in shape),
        dtype=dtype_name(value.type.tensor_type.elem_type),
    )


def dtype_name(data_type: int) -> str:
    """TVM's name of the dtype in which a compiled model stores an ONNX element type."""
    return helper.tensor_dtype_to_np_dtype(storage_type(data_type)).name if data_type else "unknown"


def strip_initializers(model: onnx.ModelProto) -> None:
    """Remove inputs that are also initializers, as before IR version 4; make sparse initializers dense."""
    for sparse in model.graph.sparse_initializer:
        model.graph.initializer.append(numpy_helper.from_array(_dense(sparse), sparse.values.name))
    del model.graph.sparse_initializer[:]
    for node in all_nodes(model.graph):
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name == "sparse_value":
                dense = numpy_helper.from_array(_dense(attribute.sparse_tensor))
                attribute.CopyFrom(helper.make_attribute("value", dense))
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in constants]
    if len(inputs) < len(model.graph.input):
        del model.graph.input[:]
        model.graph.input.extend(inputs)


def _dense(sparse: onnx.SparseTensorProto) -> np.ndarray:
    dense = np.zeros(tuple(sparse.dims), helper.tensor_dtype_to_np_dtype(sparse.values.data_type))
    indices = numpy_helper.to_array(sparse.indices)
    # One row of indices per value, or its index in the flat tensor.
    dense[tuple(indices.T) if indices.ndim > 1 else np.unravel_index(indices, dense.shape)] = numpy_helper.to_array(
        sparse.values
    )
    return dense


def bind_inputs(model: onnx.ModelProto, entries: Mapping[str, InputSpec], where: str) -> None:
    """Give every input dimension a size or a name, from the config or the model; inputs with a value become constants.

    A dimension name that occurs several times stays one variable. A dimension without a name, or with a placeholder such as
    ``?``, becomes ``<input>_d<axis>``. Shapes of outputs and inner values are dropped: they follow from the inputs.

    Raises:
        InputError: an input is not a tensor of a supported type, has no known rank, or contradicts the config.
    """
    graph = model.graph
    for value in graph.input:
        _check_tensor(value, "input", where)
        _drop_placeholders(value)
    for value in graph.output:
        _check_tensor(value, "output", where)
    _check_keys(graph.input, entries, where)
    bound: dict[str, int | str] = {}
    for value in graph.input:
        _check_against(value, entries.get(value.name), bound, graph.input, where)
    plain = {dim for value in graph.input for dim in value_shape(value) or () if isinstance(dim, str)}
    names: dict[str, str] = {}
    for value in graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.HasField("dim_value") and dim.dim_value >= 0:
                continue
            extent = bound.get(dim.dim_param, dim.dim_param) if dim.dim_param else f"{value.name}_d{axis}"
            if isinstance(extent, str):
                extent = _dimension_name(extent, names, plain, bound)
            if isinstance(extent, int):
                dim.dim_value = extent
            else:
                dim.dim_param = extent
    _fix_values(model, entries, where)
    if entries:
        # Stored shapes may contradict the inputs' new shapes.
        del graph.value_info[:]
        for value in graph.output:
            value.type.tensor_type.ClearField("shape")
    for node in all_nodes(graph):
        for body in subgraphs(node):
            del body.value_info[:]


def input_values(model: onnx.ModelProto, entries: Mapping[str, InputSpec], where: str) -> dict[str, np.ndarray]:
    """The inputs of fixed shape to which the config gives a value, by name.

    Args:
        model: the model, with the inputs of its file.
        entries: the config's entries.
        where: the source, for messages.

    Raises:
        InputError: a value does not fit the input's element type or shape, or the shape is dynamic.
    """
    values = {}
    filled = {entry.name for entry in filled_inputs(model, entries)}
    for value in model.graph.input:
        spec = entries.get(value.name)
        if spec is None or spec.value is None or value.name in filled:
            continue
        problem = f"input {value.name!r} is {_type_text(value)}, "
        shape, kind = spec.shape or value_shape(value), value.type.tensor_type.elem_type
        if kind in _UNSUPPORTED_TYPES or kind in NARROW:
            raise InputError(where, f"{problem}whose element type cannot have one", "Leave the input in the package.")
        sizes = [dim for dim in shape or () if isinstance(dim, int)]
        if shape is None or len(sizes) < len(shape):
            raise InputError(
                where, f"{problem}which has no fixed shape", f"Give it one: `inputs: {{{value.name}: {{shape: […]}}}}`."
            )
        dtype = helper.tensor_dtype_to_np_dtype(kind)
        try:
            given = np.asarray(spec.value)
            array = np.broadcast_to(given.astype(dtype), sizes).copy()
        except ValueError:
            raise InputError(
                where, f"{problem}not {spec.value}", "Write one number, or nested lists of the input's shape."
            ) from None
        if dtype.kind in "iub" and (not (array == given).all() or (given.dtype.kind == "b") != (dtype.kind == "b")):
            raise InputError(where, f"{problem}which cannot be {spec.value}", "Write a value of its element type.")
        values[value.name] = array
    return values


def _fix_values(model: onnx.ModelProto, entries: Mapping[str, InputSpec], where: str) -> None:
    """Turn inputs with a value into constants."""
    for filled in filled_inputs(model, entries):
        make_inside(model, filled)
    values = input_values(model, entries, where)
    for index in reversed(range(len(model.graph.input))):
        if model.graph.input[index].name in values:
            del model.graph.input[index]
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in values.items())


def _drop_placeholders(value: onnx.ValueInfoProto) -> None:
    """Remove placeholder names: exporters write the same one for dimensions of different sizes."""
    for dim in value.type.tensor_type.shape.dim:
        if dim.dim_param in PLACEHOLDER_NAMES or not re.search("[A-Za-z]", dim.dim_param):
            dim.ClearField("dim_param")


def _check_tensor(value: onnx.ValueInfoProto, kind: str, where: str) -> None:
    field = value.type.WhichOneof("value")
    if field is None and kind == "output":
        return
    if field != "tensor_type":
        type_name = {"sequence_type": "a sequence", "optional_type": "an optional", "map_type": "a map"}.get(
            field or "", "not a tensor"
        )
        raise InputError(
            where,
            f"{kind} {value.name!r} is {type_name}; only tensors can be inputs and outputs",
            "Export a tensor-only model; with skl2onnx: to_onnx(…, options={'zipmap': False}).",
        )
    data_type = value.type.tensor_type.elem_type
    if data_type in _UNSUPPORTED_TYPES:
        raise InputError(
            where,
            f"{kind} {value.name!r} has element type {TensorProto.DataType.Name(data_type).lower()},"
            " which compiled models cannot take",
            "Do this part of the work outside the model.",
        )


def _check_keys(inputs: Iterable[onnx.ValueInfoProto], entries: Mapping[str, InputSpec], where: str) -> None:
    names = [value.name for value in inputs]
    for name in entries:
        if name not in names:
            close = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            raise InputError(where, f"the model has no input {name!r}", f"{hint}{_list_inputs(inputs)}")


def _list_inputs(inputs: Iterable[onnx.ValueInfoProto]) -> str:
    return "Its inputs: " + ", ".join(f"{value.name} {_type_text(value)}" for value in inputs)


def _type_text(value: onnx.ValueInfoProto) -> str:
    shape = value_shape(value)
    extents = "any rank" if shape is None else ", ".join("?" if dim is None else str(dim) for dim in shape)
    return f"{dtype_name(value.type.tensor_type.elem_type)}[{extents}]"


def _check_against(
    value: onnx.ValueInfoProto,
    spec: InputSpec | None,
    bound: dict[str, int | str],
    inputs: Iterable[onnx.ValueInfoProto],
    where: str,
) -> None:
    """Check one input against its config; add the new sizes or names of its named dimensions to ``bound``."""
    shape = value_shape(value)
    dtype = dtype_name(value.type.tensor_type.elem_type)
    if spec and spec.dtype is not None and spec.dtype != dtype:
        raise InputError(where, f"input {value.name!r} is {dtype}, not {spec.dtype}", _list_inputs(inputs))
    if shape is None:
        if spec is None or spec.shape is None:
            raise InputError(
                where,
                f"input {value.name!r} has no known rank",
                f"Give its shape: `inputs: {{{value.name}: {{shape: […]}}}}`.",
            )
        value.type.tensor_type.shape.SetInParent()
        for extent in spec.shape:
            dim = value.type.tensor_type.shape.dim.add()
            if isinstance(extent, int):
                dim.dim_value = extent
            else:
                dim.dim_param = extent
        return
    if spec is None or spec.shape is None:
        return
    key = f"input {value.name!r}"
    if len(spec.shape) != len(shape):
        raise InputError(where, f"{key} has {len(shape)} axes, not {len(spec.shape)}", _list_inputs(inputs))
    for axis, (extent, declared) in enumerate(zip(spec.shape, shape, strict=True)):
        if isinstance(declared, int) and declared >= 0:
            if extent != declared:
                raise InputError(where, f"axis {axis} of {key} is {declared}, not {extent}", _list_inputs(inputs))
            continue
        dim = value.type.tensor_type.shape.dim[axis]
        if not isinstance(declared, str):
            if isinstance(extent, int):
                dim.dim_value = extent
            else:
                dim.dim_param = extent
        elif bound.setdefault(declared, extent) != extent:
            raise InputError(
                where,
                f"dimension {declared!r} of {key} is {extent} here and {bound[declared]} in another shape",
                _list_inputs(inputs),
            )


def dimension_names(model: onnx.ModelProto) -> set[str]:
    """The names of the dynamic dimensions of a prepared model's inputs."""
    sizes = (dim for value in model.graph.input for dim in value.type.tensor_type.shape.dim)
    return {name for dim in sizes for name in _IDENTIFIER.findall(dim.dim_param)}


def _dimension_name(text: str, names: dict[str, str], plain: set[str], bound: Mapping[str, int | str]) -> int | str:
    """An identifier for a dimension; ``past + 1`` stays an expression if ``past`` is a dimension itself."""
    if text in names:
        return names[text]
    match = _SIMPLE_EXPRESSION.fullmatch(text.strip())
    operands = [part for part in match.group(1, 3) if not part.isdigit()] if match else []
    if match and all(part in plain for part in operands):
        left, operator, right = match.groups()
        first, second = bound.get(left, left), int(right) if right.isdigit() else bound.get(right, right)
        if isinstance(first, int) and isinstance(second, int):
            return _ARITHMETIC[operator](first, second)
        name = f"{first} {operator} {second}"
    elif text in plain and _IDENTIFIER.fullmatch(text):
        name = text
    else:
        name = base = relax_name(text)
        index = 0
        while name in names.values() or (name in plain and name != text):
            index += 1
            name = f"{base}_{index}"
    names[text] = name
    return name


def relax_name(name: str) -> str:
    """TVM's identifier for a value's name: ``input.1`` is ``input_1``, ``0`` is ``input_0``."""
    clean = re.sub(r"[^0-9A-Za-z_]", "_", name)
    return clean if re.match(r"[A-Za-z_]", clean) else f"input_{clean}"


def rename_values(model: onnx.ModelProto) -> dict[str, str]:
    """Give inputs and initializers their names in Relax; returns the new names by the old ones.

    Equal names get a suffix. Outputs that nodes compute keep their names.
    """
    graph = model.graph
    used = {name for node in all_nodes(graph) for name in node.output}
    names: dict[str, str] = {}
    for name in [value.name for value in graph.input] + [tensor.name for tensor in graph.initializer]:
        new = base = relax_name(name.removeprefix("onnx::"))
        index = 0
        while new in used:
            index += 1
            new = f"{base}_{index}"
        used.add(new)
        names[name] = new
    for value in graph.input:
        value.name = names[value.name]
    for tensor in graph.initializer:
        tensor.name = names[tensor.name]
    for value in graph.output:
        value.name = names.get(value.name, value.name)
    _rename_uses(graph, names)
    return names


def _rename_uses(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    for node in graph.node:
        for index, name in enumerate(node.input):
            if name in names:
                node.input[index] = names[name]
        for body in subgraphs(node):
            for value in body.output:
                value.name = names.get(value.name, value.name)
            _rename_uses(body, names)


def value_ranges(model: onnx.ModelProto) -> dict[str, tuple[float, float]]:
    """Inclusive bounds of inputs, by name: the values of a narrow type, and the rows of a constant table (an embedding)."""
    narrow = {value.name: storage_range(value.type.tensor_type.elem_type) for value in model.graph.input}
    ranges = {name: bounds for name, bounds in narrow.items() if bounds}
    return ranges | {name: (0.0, float(last)) for name, (_, last) in index_bounds(model).items()}


def index_bounds(model: onnx.ModelProto) -> dict[str, tuple[int, int]]:
    """The least and the greatest row that an integer input may select from constant tables, by the input's name."""
    shapes = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    origin = {
        value.name: value.name
        for value in model.graph.input
        if value.type.tensor_type.elem_type in (TensorProto.INT32, TensorProto.INT64)
    }
    rows: dict[str, int] = {}
    for node in model.graph.node:
        if node.op_type in _INDEX_FORWARDING and node.input[0] in origin:
            origin[node.output[0]] = origin[node.input[0]]
        if node.op_type == "Gather" and node.input[1] in origin and node.input[0] in shapes:
            axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 0)
            name, extent = origin[node.input[1]], shapes[node.input[0]][axis]
            rows[name] = min(extent, rows.get(name, extent))
    return {name: (-extent, extent - 1) for name, extent in rows.items()}
