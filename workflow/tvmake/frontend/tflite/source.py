"""Read a TFLite file, and refuse an unusable model in one line. This module does not import TVM."""

import struct
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tflite

from tvmake.artifact.signature import Dim, Signature, TensorSpec
from tvmake.errors import InputError
from tvmake.frontend.source_file import COPY, open_source

IDENTIFIER = b"TFL3"
"""Bytes 4 to 8 of every TFLite file (the FlatBuffers file identifier of the TFLite schema)."""

_CONVERT = "convert the model again"

DTYPES = {
    tflite.TensorType.FLOAT32: "float32",
    tflite.TensorType.FLOAT16: "float16",
    tflite.TensorType.FLOAT64: "float64",
    tflite.TensorType.INT8: "int8",
    tflite.TensorType.INT16: "int16",
    tflite.TensorType.INT32: "int32",
    tflite.TensorType.INT64: "int64",
    tflite.TensorType.UINT8: "uint8",
    tflite.TensorType.BOOL: "bool",
}
"""TVM's dtypes by TFLite's tensor types; other types (strings, complex numbers, resources) cannot be inputs."""

SINGLE_STEPS = frozenset({"SVDF", "RNN", "LSTM"})
"""Operators that compute one step from a stored state."""

SEQUENCES = {
    "UNIDIRECTIONAL_SEQUENCE_LSTM": tflite.UnidirectionalSequenceLSTMOptions,
    "UNIDIRECTIONAL_SEQUENCE_RNN": tflite.SequenceRNNOptions,
}
"""Operators over sequences, with their options."""

_TYPE_NAMES = {value: name for name, value in vars(tflite.TensorType).items() if name.isupper()}
_OPERATOR_NAMES = {value: name for name, value in vars(tflite.BuiltinOperator).items() if name.isupper()}


class _OperatorCode(tflite.OperatorCode):
    """An operator code that is the larger of its two fields, as in LiteRT.

    New tools write only the newer field, which the schema's own reader ignores below 127.
    """

    def BuiltinCode(self) -> int:
        offset = self._tab.Offset(10)  # of the newer field; 0 if it is absent
        start = offset + self._tab.Pos
        newer = int.from_bytes(self._tab.Bytes[start : start + 4], "little") if offset else 0
        return max(newer, int(self.DeprecatedBuiltinCode()))


class _Model(tflite.Model):
    """A model that reads operator codes like LiteRT."""

    def OperatorCodes(self, j: int) -> _OperatorCode:
        table = super().OperatorCodes(j)._tab
        code = _OperatorCode()
        code.Init(table.Bytes, table.Pos)
        return code


@dataclass(frozen=True)
class TFLiteModel:
    """A model whose tables and buffers have been read without error."""

    root: tflite.Model
    signature: Signature
    operators: Counter[str]
    """Counts of operators by schema name (custom ones as ``CUSTOM:<name>``)."""
    description: str

    @property
    def graph(self) -> tflite.SubGraph:
        return self.root.Subgraphs(0)


def load(source: Path) -> TFLiteModel:
    """The checked model.

    Raises:
        InputError: no such file; not a TFLite model; truncated or damaged; inputs or outputs without a TVM dtype; tensors
            that share a name; a network whose state a package cannot keep.
    """
    where = str(source)
    data = _read(source)
    try:
        root = _Model()
        root.Init(data, tflite.Model.GetRootAs(data, 0)._tab.Pos)
        if root.SubgraphsLength() == 0:
            raise InputError(where, "has no graph", _CONVERT)
        graph = root.Subgraphs(0)
        _check_buffers(where, root, graph)
        _check_names(where, graph)
        _check_state(where, root, graph)
        operators = Counter(_operator_name(root, graph.Operators(i)) for i in range(graph.OperatorsLength()))
        signature = _signature(where, root, graph)
        description = (root.Description() or b"").decode("utf-8", "replace")
    except (AttributeError, IndexError, TypeError, UnicodeDecodeError, ValueError, struct.error) as error:
        # Errors of the FlatBuffers reader on invalid offsets.
        raise InputError(where, "is damaged or truncated: its tables cannot be read", COPY) from error
    return TFLiteModel(root, signature, operators, description)


def inspect(source: Path) -> Signature:
    """The model's inputs and outputs. Raises as ``load``."""
    return load(source).signature


def resizable_axes(model: TFLiteModel, index: int) -> tuple[int, ...]:
    """Axes of the graph's input ``index`` that are dynamic in the file."""
    return tuple(np.flatnonzero(_shape_signature(model.graph.Tensors(model.graph.Inputs(index))) < 0).tolist())


def _read(source: Path) -> bytes:
    where = str(source)
    with open_source(source, ".tflite", COPY) as file:
        data = file.read()
    if data[4:8] != IDENTIFIER:
        raise InputError(where, "is not a TFLite model (it lacks the mark TFL3)", COPY)
    return data


def _check_buffers(where: str, root: tflite.Model, graph: tflite.SubGraph) -> None:
    """Check that the size of every constant fits its shape."""
    sizes = [root.Buffers(index).DataLength() for index in range(root.BuffersLength())]
    for buffer in range(root.BuffersLength()):
        root.Buffers(buffer).DataAsNumpy()
    for index in range(graph.TensorsLength()):
        tensor = graph.Tensors(index)
        dtype = DTYPES.get(tensor.Type())
        size = sizes[tensor.Buffer()]
        if not size or dtype is None or tensor.Sparsity() is not None:
            continue
        shape = [tensor.Shape(axis) for axis in range(tensor.ShapeLength())]
        if size != int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize:
            name = (tensor.Name() or b"").decode()
            raise InputError(where, f"the constant '{name}' has {size} bytes, too few or many for {shape}", COPY)


def _check_names(where: str, graph: tflite.SubGraph) -> None:
    """Refuse tensors that share a name: TVM's importer looks up tensors by name."""
    names = Counter(graph.Tensors(index).Name() for index in range(graph.TensorsLength()))
    shared = [name.decode() for name, count in names.items() if name is not None and count > 1]
    if shared:
        raise InputError(where, f"{len(shared)} tensor names occur twice, for example '{shared[0]}'", _CONVERT)


def keeps_state(root: tflite.Model, graph: tflite.SubGraph) -> bool:
    """Whether a package keeps the variables of a network from call to call, as LiteRT does.

    If it has only those of layers over sequences of several steps, the package begins each call with zeros: converters write these
    layers for Keras' layers without state, after whose calls ``reset_all_variables`` has to follow.
    """
    for position in range(graph.OperatorsLength()):
        operator = graph.Operators(position)
        name = _operator_name(root, operator)
        if name == "ASSIGN_VARIABLE":
            return True
        read = [
            graph.Tensors(operator.Inputs(number))
            for number in range(operator.InputsLength())
            if operator.Inputs(number) >= 0
        ]
        has_variables = any(tensor.IsVariable() for tensor in read)
        if has_variables and (name in SINGLE_STEPS or (name in SEQUENCES and _steps(operator, name, read[0]) == 1)):
            return True
    return False


def _steps(operator: tflite.Operator, name: str, data: tflite.Tensor) -> int:
    """The number of steps of a layer over a sequence."""
    options = SEQUENCES[name]()
    options.Init(operator.BuiltinOptions().Bytes, operator.BuiltinOptions().Pos)
    return int(data.Shape(0 if options.TimeMajor() else 1))


def _check_state(where: str, root: tflite.Model, graph: tflite.SubGraph) -> None:
    """Refuse variables that a package cannot keep."""
    if not keeps_state(root, graph):
        return
    names = [_operator_name(root, graph.Operators(position)) for position in range(graph.OperatorsLength())]
    if unsupported := next((name for name in names if name.startswith("BIDIRECTIONAL")), None):
        problem = f"keeps state between calls in {unsupported}, beside that of other operators"
        raise InputError(where, problem, "convert it with whole sequences as inputs")
    for number in range(1, root.SubgraphsLength()):
        part = root.Subgraphs(number)
        operators = {_operator_name(root, part.Operators(position)) for position in range(part.OperatorsLength())}
        if "READ_VARIABLE" in operators or any(
            part.Tensors(index).IsVariable() for index in range(part.TensorsLength())
        ):
            problem = "has a variable in a branch or a loop, whose state a package cannot keep"
            raise InputError(where, problem, "convert it with its state as inputs and outputs")


def _operator_name(root: tflite.Model, operator: tflite.Operator) -> str:
    code = root.OperatorCodes(operator.OpcodeIndex())
    builtin = code.BuiltinCode()
    if builtin == tflite.BuiltinOperator.CUSTOM:
        return f"CUSTOM:{(code.CustomCode() or b'').decode()}"
    return _OPERATOR_NAMES.get(builtin, f"operator {builtin}")


def _signature(where: str, root: tflite.Model, graph: tflite.SubGraph) -> Signature:
    inputs = [graph.Inputs(index) for index in range(graph.InputsLength())]
    outputs = [graph.Outputs(index) for index in range(graph.OutputsLength())]
    if not outputs:
        raise InputError(where, "the graph has no outputs", _CONVERT)
    ranges, constant = _index_ranges(root, graph), _index_ranges(root, graph, are_constant=True)
    names: set[str] = set()
    return Signature(
        inputs=tuple(
            _spec(where, graph, index, names).model_copy(
                update={"range": ranges.get(index), "indices": constant.get(index)}
            )
            for index in inputs
        ),
        outputs=tuple(_spec(where, graph, index, set()) for index in outputs),
    )


def _spec(where: str, graph: tflite.SubGraph, index: int, names: set[str]) -> TensorSpec:
    tensor = graph.Tensors(index)
    name = (tensor.Name() or f"tvmgen_tensor_{index}".encode()).decode()
    dtype = DTYPES.get(tensor.Type())
    if dtype is None:
        kind = _TYPE_NAMES.get(tensor.Type(), tensor.Type())
        raise InputError(where, f"'{name}' has the type {kind}, which TVM lacks", "convert the model without it")
    relax_name = relax_identifier(name)
    if not relax_name[:1].isalpha():
        relax_name = f"input_{relax_name}"
    while relax_name in names:
        relax_name += "_"
    names.add(relax_name)
    shape: tuple[Dim, ...] = tuple(tensor.Shape(axis) for axis in range(tensor.ShapeLength()))
    return TensorSpec(name=name, relax_name=relax_name, shape=shape, dtype=dtype)


def relax_identifier(name: str) -> str:
    """A name with other characters than letters and digits replaced."""
    return "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name)


def _shape_signature(tensor: tflite.Tensor) -> np.ndarray:
    return np.array([tensor.ShapeSignature(axis) for axis in range(tensor.ShapeSignatureLength())], dtype=np.int64)


def _index_ranges(
    root: tflite.Model, graph: tflite.SubGraph, *, are_constant: bool = False
) -> dict[int, tuple[int, int]]:
    """Bounds of the graph inputs that GATHER and EMBEDDING_LOOKUP use as indices: of any table, or of constant ones."""
    rows: dict[int, int] = {}
    for number in range(graph.OperatorsLength()):
        operator = graph.Operators(number)
        name = _operator_name(root, operator)
        if name == "GATHER":
            options = tflite.GatherOptions()
            options.Init(operator.BuiltinOptions().Bytes, operator.BuiltinOptions().Pos)
            table, index, axis = operator.Inputs(0), operator.Inputs(1), options.Axis()
        elif name == "EMBEDDING_LOOKUP":
            table, index, axis = operator.Inputs(1), operator.Inputs(0), 0
        else:
            continue
        if are_constant and not root.Buffers(graph.Tensors(table).Buffer()).DataLength():
            continue
        shape = [graph.Tensors(table).Shape(a) for a in range(graph.Tensors(table).ShapeLength())]
        rows[index] = min(shape[axis], rows.get(index, shape[axis]))
    return {index: (0, extent - 1) for index, extent in rows.items()}
