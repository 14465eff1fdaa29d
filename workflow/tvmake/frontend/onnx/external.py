"""Large initializers of an ONNX model that stay in their file until they are needed.

The model keeps a reference to the file instead of a copy of the data. This module does not import TVM.
"""

import math
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import ExternalDataInfo, load_external_data_for_tensor, uses_external_data

from tvmake.storage.mapped.mapping import map_file

LARGE_BYTES = 1 << 20
"""Larger initializers are set aside while the onnx package's tools run, because these copy the model."""

PLAIN = frozenset({
    TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.INT8, TensorProto.INT16, TensorProto.INT32,
    TensorProto.INT64, TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64,
})  # fmt: skip
"""Element types that files and NumPy store alike (little-endian)."""


def is_large(tensor: TensorProto) -> bool:
    """Whether an initializer is set aside; external data count."""
    return (data_size(tensor) if uses_external_data(tensor) else tensor.ByteSize()) >= LARGE_BYTES


def stays_in_file(tensor: TensorProto) -> bool:
    """Whether an initializer with external data can be mapped from its file."""
    length = ExternalDataInfo(tensor).length
    return tensor.data_type in PLAIN and length in (None, data_size(tensor)) and is_large(tensor)


def load_external(tensor: TensorProto, directory: Path) -> None:
    """Read a tensor's external data into the model.

    Raises:
        OSError, ValueError, onnx.checker.ValidationError: they cannot be read.
    """
    load_external_data_for_tensor(tensor, str(directory))
    tensor.data_location = TensorProto.DEFAULT
    del tensor.external_data[:]


def refer_to_external(tensor: TensorProto, directory: Path) -> None:
    """Name the file of a tensor's external data by its full path, for :func:`array_of`."""
    for entry in tensor.external_data:
        if entry.key == "location":
            entry.value = str((directory / entry.value).absolute())


def array_of(tensor: TensorProto) -> np.ndarray:
    """The values of a tensor; mapped from the file if they are still there.

    Raises:
        OSError, ValueError: the file cannot be read.
    """
    if not uses_external_data(tensor):
        return numpy_helper.to_array(tensor)
    info = ExternalDataInfo(tensor)
    begin = info.offset or 0
    data = map_file(Path(info.location))[begin : begin + data_size(tensor)]
    return data.view(helper.tensor_dtype_to_np_dtype(tensor.data_type)).reshape(tuple(tensor.dims))


def map_initializers(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Replace the initializers that are still in files by inputs; returns the inputs' values."""
    graph, values = model.graph, {}
    for index in reversed(range(len(graph.initializer))):
        tensor = graph.initializer[index]
        if uses_external_data(tensor):
            values[tensor.name] = array_of(tensor)
            if all(value.name != tensor.name for value in graph.input):
                graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
            del graph.initializer[index]
    return values


def data_size(tensor: TensorProto) -> int:
    """The size in bytes that a tensor's shape and type give its data."""
    return math.prod(tensor.dims) * helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
