"""A network's parameters between memory and a file."""

import ctypes
import math
import mmap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from tvmake.artifact.stage_json import GONE
from tvmake.artifact.weights.file_format import StoredTensor, TensorForm, stored_tensors, write_tensors
from tvmake.errors import InputError
from tvmake.storage.files import atomic_path

_view = tvm_ffi.get_global_func("runtime.TVMTensorCreateView")


def save_params(params: Mapping[str, Any], destination: Path) -> None:
    """Write parameters (numpy arrays, TVM tensors, or :class:`Deferred`), in the mapping's order, atomically and one at a time."""
    forms = [TensorForm(name, tuple(map(int, value.shape)), _type(value.dtype)) for name, value in params.items()]
    with atomic_path(destination) as temporary, temporary.open("wb") as file:
        write_tensors(forms, map(_data, params.values()), file)


@dataclass(frozen=True)
class Deferred:
    """A parameter that is computed when it is written."""

    shape: tuple[int, ...]
    dtype: str
    compute: Callable[[], "tvm.runtime.Tensor"]


def _type(dtype: Any) -> tuple[int, int, int]:
    known = tvm_ffi.dtype(str(dtype))
    return known.type_code, known.bits, known.lanes


def _data(value: Any) -> memoryview:
    tensor = value.compute() if isinstance(value, Deferred) else value
    tensor = tvm.runtime.tensor(tensor) if isinstance(tensor, np.ndarray) else tensor
    size = math.prod(tensor.shape) * ((tensor.dtype.bits + 7) // 8)
    block = (ctypes.c_char * size).from_address(tensor.data_ptr())
    block.tensor = tensor  # it lives as long as its data are needed
    return memoryview(block)


def load_params(source: Path) -> dict[str, Any]:
    """Map parameters written by :func:`save_params`, in order, as TVM tensors.

    Writing to a tensor changes this process's copy of it, not the file.

    Raises:
        InputError: the file is missing or damaged.
    """
    try:
        stored = stored_tensors(source)
    except FileNotFoundError:
        raise InputError(str(source), "no such parameter file", GONE) from None
    except (OSError, ValueError):
        raise InputError(str(source), "not a parameter file, or damaged", "delete it and run again") from None
    with source.open("rb") as file:
        content = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), "uint8")
    return {tensor.name: _load(tensor, content[tensor.offset :][: tensor.size]) for tensor in stored}


def _load(stored: StoredTensor, data: np.ndarray) -> "tvm.runtime.Tensor":
    dtype = tvm_ffi.dtype.from_dlpack_data_type(stored.type)
    if not stored.size:
        return tvm.runtime.empty(stored.shape, dtype)
    tensor = tvm.runtime.from_dlpack(data) if stored.is_aligned else tvm.runtime.tensor(data)
    return _view(tensor, tvm.runtime.ShapeTuple(stored.shape), dtype, 0)
