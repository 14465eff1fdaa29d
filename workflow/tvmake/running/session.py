"""A sequence of runs of an opened package, with states of its own."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tvmake.artifact.states import PackageStates, StateKey, read_snapshot, write_snapshot
from tvmake.running.inputs import Arrays, Fill, Given

if TYPE_CHECKING:
    from tvmake.device.states import States


class Network(Protocol):
    """An opened package, or one of its functions."""

    @property
    def _package_states(self) -> PackageStates: ...

    def __getitem__(self, function: str) -> "Network": ...

    def _states_of(self, values: dict[StateKey, Any]) -> "States": ...

    def _run_with(
        self,
        states: "Callable[[], States]",
        values: dict[StateKey, Any],
        inputs: Given,
        more: tuple[np.ndarray, ...],
        fill: Fill | None,
        named: Mapping[str, np.ndarray],
    ) -> Arrays: ...

    def _variant(self) -> str: ...


class Session:
    """States of a package, from run to run: those of several sessions do not mix, and share the package's weights.

    Made by :meth:`tvmake.Package.session`. Without states, every run is independent.

    In a package with several functions, ``session["decode"].run(…)`` runs one of them. Functions share a state of the same name, type
    and shape: what one writes, the next one reads. An input that another function gives (``links`` in the config) may be left out
    after this function has run.
    """

    def __init__(self, package: Network, values: dict[StateKey, Any] | None = None):
        self._package = package
        self._values = {} if values is None else values
        self._functions: dict[str, Session] = {}

    @cached_property
    def _states(self) -> "States":
        return self._package._states_of(self._values)

    def __getitem__(self, function: str) -> "Session":
        """A function of the package, with the states of this session.

        Raises:
            InputError: the package has no such function.
        """
        if function not in self._functions:
            self._functions[function] = Session(self._package[function], self._values)
        return self._functions[function]

    def run(self, inputs: Given = None, *more: np.ndarray, fill: Fill | None = None, **named: np.ndarray) -> Arrays:
        """Run the network once, as :meth:`tvmake.Package.run` does, with this session's states."""
        return self._package._run_with(lambda: self._states, self._values, inputs, more, fill, named)

    def __call__(
        self, inputs: Given = None, *more: np.ndarray, fill: Fill | None = None, **named: np.ndarray
    ) -> Arrays:
        """Run the network once, as :meth:`run` does."""
        return self.run(inputs, *more, fill=fill, **named)

    def reset(self) -> None:
        """Restart the states, those of all functions."""
        self._values.clear()

    def snapshot(self) -> bytes:
        """The states' values, bit for bit, for :meth:`restore` of any session of this package, here or on another device."""
        arrays = {key: value if isinstance(value, np.ndarray) else value.numpy() for key, value in self._values.items()}
        return write_snapshot(self._package._package_states, arrays)

    def restore(self, snapshot: bytes) -> None:
        """Continue with the states of a snapshot.

        Raises:
            InputError: it is damaged, or of another package.
        """
        values = read_snapshot(self._package._package_states, snapshot)
        self._values.clear()
        self._values.update(values)

    def __repr__(self) -> str:
        kept = ", ".join(f"'{key.name}'" for key in self._package._package_states.functions) or "nothing"
        return f"<tvmake.Session of {self._package._variant()}, which keeps {kept}>"
