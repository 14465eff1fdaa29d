"""Run a kernel once, in a separate process: ``main([REQUEST, INPUTS, OUTPUTS])``.

Inputs and outputs are ``.npz`` files (:mod:`tvmake.artifact.tensor_file`). The memory of results is filled with one
byte first, so that unwritten elements are visible.
"""

import zipfile
from pathlib import Path

import numpy as np
import tvm
from pydantic import BaseModel, ConfigDict

from tvmake.artifact.tensor_file import member, numpy_dtype, read_array, write_array
from tvmake.native.runtime_libraries import present

ENTRY = "main"
"""The kernel's name in its library."""


class Tensor(BaseModel):
    """A tensor's type and shape."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dtype: str
    shape: tuple[int, ...]
    scope: str = "global"
    """Its memory scope: ``global`` is a buffer, ``global.texture…`` an image."""


class KernelRequest(BaseModel):
    """One run of a kernel."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    library: str
    device: str
    """The runtime's name of the device kind (``cpu``)."""
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    fill: int
    """The byte that results are filled with first."""


def main(arguments: list[str]) -> int:
    """Handle a request; see the module's docstring for the arguments."""
    request_file, input_file, output_file = (Path(argument) for argument in arguments)
    request = KernelRequest.model_validate_json(request_file.read_bytes())
    device = present(request.device)
    kernel = tvm.runtime.load_module(request.library)[ENTRY]
    with zipfile.ZipFile(input_file) as archive:
        inputs = [
            np.asarray(read_array(archive, member("input", None, number), tensor.dtype), order="C")
            for number, tensor in enumerate(request.inputs)
        ]
    tensors = [to_device(value, device, tensor.scope) for value, tensor in zip(inputs, request.inputs, strict=True)]
    results = [to_device(filled_array(tensor, request.fill), device, tensor.scope) for tensor in request.outputs]
    kernel(*tensors, *results)
    device.sync()
    with zipfile.ZipFile(output_file, "w", zipfile.ZIP_STORED) as archive:
        for number, result in enumerate(results):
            write_array(archive, member("output", None, number), result.numpy())
    return 0


def to_device(value: np.ndarray, device: "tvm.runtime.Device", scope: str) -> "tvm.runtime.Tensor":
    """A tensor with these values in a device's memory."""
    if scope == "global":
        return tvm.runtime.tensor(value, device)
    tensor = tvm.runtime.empty(value.shape, str(value.dtype), device, scope)
    tensor.copyfrom(value)
    return tensor


def filled_array(tensor: Tensor, byte: int) -> np.ndarray:
    """An array with all bytes equal."""
    kind = numpy_dtype(tensor.dtype)
    size = int(np.prod(tensor.shape, dtype=np.int64)) * kind.itemsize
    return np.full(size, byte, np.uint8).view(kind).reshape(tensor.shape)
