"""The weights of loaded packages: mapped from their file, and on another device a copy of each, which functions share."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import tvm

from tvmake.artifact.weights.tensors import load_params

CPU = 1
"""``kDLCPU`` of DLPack."""


class WeightFile:
    """A file of parameters, whose tensors are loaded when they are needed, and once."""

    def __init__(self, file: Path):
        self._file = file
        self._copies: dict[tuple[int, int, str], Any] = {}

    @cached_property
    def _tensors(self) -> dict[str, Any]:
        return load_params(self._file)

    def on(self, device: Any, name: str) -> Any:
        """A tensor on a device; that of the CPU is in the file's memory."""
        if device.dlpack_device_type() == CPU:
            return self._tensors[name]
        key = (device.dlpack_device_type(), device.index, name)
        if key not in self._copies:
            self._copies[key] = tvm.runtime.tensor(self._tensors[name].numpy(), device)
        return self._copies[key]


@dataclass(frozen=True)
class Weights:
    """The parameters of a network, by their names in a file."""

    file: WeightFile
    names: Sequence[str]

    def on(self, device: Any) -> list[Any]:
        """The parameters on a device, in order.

        Raises:
            InputError: the file is missing or damaged.
        """
        return [self.file.on(device, name) for name in self.names]
