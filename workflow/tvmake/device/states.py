"""The states of a loaded package: tensors on its device that ``main`` takes and gives back with their next values."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvmake.artifact.signature import Signature
from tvmake.artifact.states import initial_states
from tvmake.errors import InputError


class States:
    """The values of a package's states, from run to run.

    Args:
        create: makes a tensor on the package's device.
    """

    def __init__(self, signature: Signature, create: Callable[[np.ndarray], Any]):
        self._signature = signature
        self._create = create
        self._values: list[Any] | None = None

    def __len__(self) -> int:
        return len(self._signature.states)

    def values(self, inputs: Sequence[np.ndarray]) -> list[Any]:
        """The values for a run on these inputs; at the beginning zeros, in whose shapes the inputs' sizes are.

        Raises:
            InputError: an input has another size than the states began with.
        """
        if not self._signature.states:
            return []
        if self._values is not None:
            self._check_sizes(inputs, self._values)
        else:
            named = {spec.name: value for spec, value in zip(self._signature.inputs, inputs, strict=True)}
            self._values = list(map(self._create, initial_states(self._signature, named).values()))
        return self._values

    def _check_sizes(self, inputs: Sequence[np.ndarray], values: Sequence[Any]) -> None:
        kept = {
            extent: int(size)
            for state, value in zip(self._signature.states, values, strict=True)
            for extent, size in zip(state.shape, value.shape, strict=True)
        }
        for spec, array in zip(self._signature.inputs, inputs, strict=True):
            for extent, size in zip(spec.shape, array.shape, strict=True):
                if isinstance(extent, str) and kept.get(extent, size) != size:
                    problem = f"{extent} is {size} in '{spec.name}' and {kept[extent]} in the states"
                    remedy = "use inputs of the size with which the states began, or `reset()`"
                    raise InputError("inputs", problem, remedy)

    @property
    def arrays(self) -> list[np.ndarray] | None:
        """Copies of the values; None if they have not begun."""
        return None if self._values is None else [value.numpy() for value in self._values]

    def restore(self, arrays: Sequence[np.ndarray] | None) -> None:
        """Continue with these values; None restarts."""
        self._values = None if arrays is None else list(map(self._create, arrays))

    def keep(self, values: Sequence[Any]) -> None:
        """Keep the next values, as tensors on the device."""
        self._values = list(values)

    def reset(self) -> None:
        """Restart from the initial values."""
        self._values = None
