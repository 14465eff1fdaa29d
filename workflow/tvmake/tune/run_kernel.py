"""Runs one kernel once, in a process of its own: ``main([REQUEST, INPUTS, OUTPUTS])``.

Inputs and outputs are ``.npz`` files (:mod:`tvmake.artifact.tensor_file`). Results are written into memory that is
filled with one byte before, so that what a kernel leaves unwritten shows.
"""

import zipfile
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict

from tvmake.artifact.tensor_file import member, numpy_dtype, read_array, write_array
from tvmake.quick_tvm import tvm

ENTRY = "main"
"""The kernel's name in its library."""


class Tensor(BaseModel):
    """A tensor's type and shape."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dtype: str
    shape: tuple[int, ...]


class KernelRequest(BaseModel):
    """One run of a kernel."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    library: str
    device: str
    """The runtime's name for the kind of device (``cpu``)."""
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    fill: int
    """The byte that results are filled with before."""


def main(arguments: list[str]) -> int:
    """Serve one request; see the module's text for the arguments."""
    asked, given, answered = (Path(argument) for argument in arguments)
    request = KernelRequest.model_validate_json(asked.read_bytes())
    device = tvm.runtime.device(request.device, 0)
    kernel = tvm.runtime.load_module(request.library)[ENTRY]
    with zipfile.ZipFile(given) as archive:
        inputs = [
            np.ascontiguousarray(read_array(archive, member("input", None, number), one.dtype))
            for number, one in enumerate(request.inputs)
        ]
    tensors = [tvm.runtime.tensor(value, device) for value in inputs]
    results = [tvm.runtime.tensor(filled(one, request.fill), device) for one in request.outputs]
    kernel(*tensors, *results)
    device.sync()
    with zipfile.ZipFile(answered, "w", zipfile.ZIP_STORED) as archive:
        for number, result in enumerate(results):
            write_array(archive, member("output", None, number), result.numpy())
    return 0


def filled(tensor: Tensor, byte: int) -> np.ndarray:
    """An array whose every byte is the same."""
    kind = numpy_dtype(tensor.dtype)
    size = int(np.prod(tensor.shape, dtype=np.int64)) * kind.itemsize
    return np.full(size, byte, np.uint8).view(kind).reshape(tensor.shape)
