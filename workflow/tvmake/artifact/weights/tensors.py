"""A network's parameters between memory and a file."""

import ctypes
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from tvmake.artifact.stage_json import GONE
from tvmake.artifact.weights.file_format import (
    ALIGNMENT,
    LARGE,
    StoredTensor,
    TensorForm,
    stored_tensors,
    write_tensors,
)
from tvmake.errors import InputError
from tvmake.storage.files import Sink, atomic_path, copy_file
from tvmake.storage.mapped.mapping import is_mapped, map_file, release
from tvmake.storage.mapped.spilling import spill

_view = tvm_ffi.get_global_func("runtime.TVMTensorCreateView")


def save_params(params: Mapping[str, Any], destination: Path) -> None:
    """Write parameters (numpy arrays, TVM tensors, or :class:`Deferred`), in the mapping's order, atomically and one at a time."""
    with atomic_path(destination) as temporary, temporary.open("wb") as file:
        write_params(params, file)


def write_params(params: Mapping[str, Any], file: Sink) -> None:
    """Write parameters, as :func:`save_params`, into an open file."""
    forms = [TensorForm(name, tuple(map(int, value.shape)), _type(value.dtype)) for name, value in params.items()]
    write_tensors(forms, _contents(params.values()), file)


def save_changed_params(params: Mapping[str, Any], destination: Path, source: Path, before: Mapping[str, Any]) -> None:
    """Write parameters, or link to the file that they come from if none of them changed.

    Args:
        source: a file of parameters.
        before: its parameters. Those that are not in ``params`` are not written, but small ones do not prevent a link.
    """
    is_unchanged = all(name in before and is_same(value, before[name]) for name, value in params.items())
    unused = [value for name, value in before.items() if name not in params]
    if is_unchanged and sum(map(size_of, unused)) < LARGE:
        copy_file(source, destination, may_link=True)
    else:
        save_params(params, destination)


def is_same(tensor: "tvm.runtime.Tensor", before: "tvm.runtime.Tensor") -> bool:
    """Whether two tensors are the same memory."""
    return tensor_key(tensor) == tensor_key(before)


def tensor_key(tensor: "tvm.runtime.Tensor") -> tuple[int, tuple[int, ...], str]:
    """Address, shape and dtype."""
    return tensor.data_ptr(), tuple(map(int, tensor.shape)), str(tensor.dtype)


@dataclass(frozen=True)
class Deferred:
    """A parameter that is computed when it is written."""

    shape: tuple[int, ...]
    dtype: str
    compute: Callable[[], "tvm.runtime.Tensor"]


def _type(dtype: Any) -> tuple[int, int, int]:
    known = tvm_ffi.dtype(str(dtype))
    return known.type_code, known.bits, known.lanes


def _contents(values: Iterable[Any]) -> Iterator[memoryview]:
    """The data of each parameter; memory that is mapped from a file is released after it is written."""
    for value in values:
        tensor = value.compute() if isinstance(value, Deferred) else value
        tensor = tvm.runtime.tensor(tensor) if isinstance(tensor, np.ndarray) else tensor
        yield data_of(tensor)
        release_tensor(tensor)


def data_of(tensor: "tvm.runtime.Tensor") -> memoryview:
    """The data of a tensor in this process's memory, without a copy."""
    block: Any = (ctypes.c_char * size_of(tensor)).from_address(tensor.data_ptr())
    block.tensor = tensor  # it lives as long as its data are needed
    return memoryview(block)


def size_of(tensor: "tvm.runtime.Tensor") -> int:
    """The size of a tensor's data in bytes."""
    return math.prod(map(int, tensor.shape)) * ((int(tensor.dtype.bits) + 7) // 8)


def release_tensor(tensor: "tvm.runtime.Tensor") -> None:
    """Return the memory of a tensor to the system, if it is mapped from a file."""
    release(tensor.data_ptr(), size_of(tensor))


def load_params(source: Path) -> dict[str, Any]:
    """Map parameters written by :func:`save_params`, in order, as TVM tensors.

    Writing to a tensor changes this process's copy of it, not the file.

    Raises:
        InputError: the file is missing or damaged.
    """
    try:
        stored = stored_tensors(source)
        content = map_file(source)
    except FileNotFoundError:
        raise InputError(str(source), "no such parameter file", GONE) from None
    except (OSError, ValueError):
        raise InputError(str(source), "not a parameter file, or damaged", "delete it and run again") from None
    return {tensor.name: _load(tensor, content[tensor.offset :][: tensor.size]) for tensor in stored}


def as_tensor(array: np.ndarray) -> "tvm.runtime.Tensor":
    """An array as a TVM tensor: mapped data without a copy if kernels can use them where they are, other arrays as a copy."""
    is_shared = is_mapped(array) and array.ctypes.data % ALIGNMENT == 0 and array.flags.c_contiguous
    return tvm.runtime.from_dlpack(array) if is_shared else tvm.runtime.tensor(array)


def spill_tensor(array: np.ndarray) -> "tvm.runtime.Tensor":
    """An array as a TVM tensor; the data of a large one are in a temporary file (:mod:`tvmake.storage.mapped.spilling`)."""
    array = np.ascontiguousarray(array) if array.ndim else array
    spilled = spill(array)
    if spilled is array:
        return tvm.runtime.tensor(array)
    data = tvm.runtime.from_dlpack(spilled.reshape(-1).view(np.uint8))
    return _view(data, tvm.runtime.ShapeTuple(array.shape), tvm_ffi.dtype(str(array.dtype)), 0)


def _load(stored: StoredTensor, data: np.ndarray) -> "tvm.runtime.Tensor":
    dtype = tvm_ffi.dtype.from_dlpack_data_type(stored.type)
    if not stored.size:
        return tvm.runtime.empty(stored.shape, dtype)
    tensor = tvm.runtime.from_dlpack(data) if stored.is_aligned else tvm.runtime.tensor(data)
    return _view(tensor, tvm.runtime.ShapeTuple(stored.shape), dtype, 0)
