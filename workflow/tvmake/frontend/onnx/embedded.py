"""Parse an ONNX model without its large initializers: these become references to their bytes in the model's own file.

Protobuf copies a message's data, and so do the onnx package's tools. This module reads the structure of the file alone
(https://protobuf.dev/programming-guides/encoding/), and does not import TVM.
"""

from collections.abc import Iterator

import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto

from tvmake.frontend.onnx.external import LARGE_BYTES, PLAIN, data_size

GRAPH = onnx.ModelProto.DESCRIPTOR.fields_by_name["graph"].number
INITIALIZER = onnx.GraphProto.DESCRIPTOR.fields_by_name["initializer"].number
RAW_DATA = TensorProto.DESCRIPTOR.fields_by_name["raw_data"].number

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types."""

LONGEST_VARINT = 10

Field = tuple[int, int, int, int]
"""A field's number, where it begins, and where its value begins and ends."""


class _NotUnderstoodError(ValueError):
    """A file that protobuf's own parser should judge."""


def without_large_data(content: memoryview, location: str) -> tuple[bytes, int] | None:
    """A serialized model with references in place of large initializers, and their number; None for a file that is not understood.

    Args:
        content: the file.
        location: the file's full path, for the references.
    """
    try:
        return _model(content, location)
    except (_NotUnderstoodError, DecodeError):
        return None


def _model(content: memoryview, location: str) -> tuple[bytes, int]:
    parts: list[bytes] = []
    count = 0
    for number, begin, value, end in _fields(content, 0, len(content)):
        if number == GRAPH:
            graph, references = _graph(content, value, end, location)
            parts += [_tag(GRAPH), _varint(len(graph)), graph]
            count += references
        else:
            parts.append(bytes(content[begin:end]))
    return b"".join(parts), count


def _graph(content: memoryview, begin: int, end: int, location: str) -> tuple[bytes, int]:
    parts: list[bytes] = []
    count = 0
    for number, first, value, last in _fields(content, begin, end):
        tensor = (
            _refer(content, value, last, location) if number == INITIALIZER and last - value > LARGE_BYTES else None
        )
        if tensor is None:
            parts.append(bytes(content[first:last]))
        else:
            parts += [_tag(INITIALIZER), _varint(len(tensor)), tensor]
            count += 1
    return b"".join(parts), count


def _refer(content: memoryview, begin: int, end: int, location: str) -> bytes | None:
    """A tensor with a reference in place of its data; None for one that has to be parsed."""
    fields = list(_fields(content, begin, end))
    raw = [(value, last) for number, _, value, last in fields if number == RAW_DATA]
    if len(raw) != 1:
        return None
    tensor = TensorProto()
    tensor.ParseFromString(b"".join(content[first:last] for number, first, _, last in fields if number != RAW_DATA))
    (value, last), size = raw[0], data_size(tensor) if tensor.data_type in PLAIN else None
    if size != last - value or size < LARGE_BYTES or tensor.external_data:
        return None
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in (("location", location), ("offset", str(value)), ("length", str(size))):
        tensor.external_data.add(key=key, value=text)
    return tensor.SerializeToString()


def _fields(content: memoryview, position: int, end: int) -> Iterator[Field]:
    while position < end:
        begin = position
        tag, position = _read_varint(content, position, end)
        value, kind = position, tag & 7
        if kind == VARINT:
            _, position = _read_varint(content, position, end)
        elif kind == BYTES:
            length, value = _read_varint(content, position, end)
            position = value + length
        elif kind in (FIXED64, FIXED32):
            position += 8 if kind == FIXED64 else 4
        else:
            raise _NotUnderstoodError
        if position > end:
            raise _NotUnderstoodError
        yield tag >> 3, begin, value, position


def _read_varint(content: memoryview, position: int, end: int) -> tuple[int, int]:
    value = 0
    for index in range(LONGEST_VARINT):
        if position + index >= end:
            break
        byte = content[position + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, position + index + 1
    raise _NotUnderstoodError


def _tag(number: int) -> bytes:
    return _varint(number << 3 | BYTES)


def _varint(value: int) -> bytes:
    groups = []
    while value >= 0x80:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])
