"""The states of a loaded package: tensors on its device that ``main`` takes and gives back with their next values."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvmake.artifact.extents import describe_bounds, has_size
from tvmake.artifact.signature import Signature
from tvmake.artifact.states import StateKey, initial_states, state_key
from tvmake.errors import InputError


class States:
    """The values of a network's states, from run to run.

    Args:
        create: makes a tensor on the network's device.
        values: those of the session, which the functions of a package share; arrays become tensors when a run needs them.
        keys: those of the states among the session's; by default of states that functions share.
    """

    def __init__(
        self,
        signature: Signature,
        create: Callable[[np.ndarray], Any],
        values: dict[StateKey, Any] | None = None,
        keys: Sequence[StateKey] | None = None,
    ):
        self._signature = signature
        self._create = create
        self._keys = list(map(state_key, signature.states) if keys is None else keys)
        self._values: dict[StateKey, Any] = {} if values is None else values

    def __len__(self) -> int:
        return len(self._keys)

    def values(self, inputs: Sequence[np.ndarray]) -> list[Any]:
        """The values for a run on these inputs; at the beginning zeros, in whose shapes the inputs' sizes are.

        Raises:
            InputError: an input has another size than the states began with, or the states have grown beyond the package's bounds.
        """
        if not self._keys:
            return []
        self._check_sizes(inputs)
        self._check_bounds()
        if not self._values.keys() >= set(self._keys):
            named = {spec.name: value for spec, value in zip(self._signature.inputs, inputs, strict=True)}
            begin = zip(self._keys, initial_states(self._signature, named).values(), strict=True)
            self._values |= {key: value for key, value in begin if key not in self._values}
        for key in self._keys:
            if isinstance(self._values[key], np.ndarray):
                self._values[key] = self._create(self._values[key])
        return [self._values[key] for key in self._keys]

    def _check_sizes(self, inputs: Sequence[np.ndarray]) -> None:
        kept = {
            extent: int(size)
            for state, key in zip(self._signature.states, self._keys, strict=True)
            if key in self._values
            for extent, size in zip(state.shape, self._values[key].shape, strict=True)
        }
        for spec, array in zip(self._signature.inputs, inputs, strict=True):
            for extent, size in zip(spec.shape, array.shape, strict=True):
                if isinstance(extent, str) and kept.get(extent, size) != size:
                    problem = f"{extent} is {size} in '{spec.name}' and {kept[extent]} in the states"
                    remedy = "use inputs of the size with which the states began, or `reset()`"
                    raise InputError("inputs", problem, remedy)

    def _check_bounds(self) -> None:
        bounds = self._signature.bounds
        for state, key in zip(self._signature.states, self._keys, strict=True) if bounds else ():
            sizes = self._values[key].shape if key in self._values else ()
            for extent, size in zip(state.shape, sizes, strict=False):
                if isinstance(extent, str) and extent in bounds and not has_size(bounds[extent], int(size)):
                    problem = f"{extent} is {int(size)}; this package takes {describe_bounds(bounds[extent])}"
                    remedy = f"restart with `reset()`, or compile it for more: `dims: {{{extent}: {{max: SIZE}}}}`"
                    raise InputError("states", problem, remedy)

    def keep(self, values: Sequence[Any]) -> None:
        """Keep the next values, as tensors on the device."""
        self._values |= zip(self._keys, values, strict=True)

    def reset(self) -> None:
        """Restart from the initial values."""
        self._values.clear()
