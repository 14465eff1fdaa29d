"""A sequence of runs of an opened package, with states of its own."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from tvmake.artifact.manifest import Manifest
from tvmake.artifact.states import read_snapshot, write_snapshot
from tvmake.running.inputs import Arrays, Fill, Given, describe_tensor

if TYPE_CHECKING:
    from tvmake.device.states import States

Run = Callable[["States", Given, tuple[np.ndarray, ...], Fill | None, Mapping[str, np.ndarray]], Arrays]
"""Runs a package once: with these states on the first input or all inputs, the other inputs, how to fill, and inputs by keyword."""


class Session:
    """States of a package, from run to run: those of several sessions do not mix, and share the package's weights.

    Made by :meth:`tvmake.Package.session`. Without states, every run is independent.
    """

    def __init__(self, manifest: Manifest, states: "States", run: Run):
        self._manifest = manifest
        self._states = states
        self._run = run

    def run(self, inputs: Given = None, *more: np.ndarray, fill: Fill | None = None, **named: np.ndarray) -> Arrays:
        """Run the network once, as :meth:`tvmake.Package.run` does, with this session's states."""
        return self._run(self._states, inputs, more, fill, named)

    def __call__(
        self, inputs: Given = None, *more: np.ndarray, fill: Fill | None = None, **named: np.ndarray
    ) -> Arrays:
        """Run the network once, as :meth:`run` does."""
        return self.run(inputs, *more, fill=fill, **named)

    def reset(self) -> None:
        """Restart the states."""
        self._states.reset()

    def snapshot(self) -> bytes:
        """The states' values, bit for bit, for :meth:`restore` of any session of this package, here or on another device."""
        return write_snapshot(self._manifest, self._states.arrays)

    def restore(self, snapshot: bytes) -> None:
        """Continue with the states of a snapshot.

        Raises:
            InputError: it is damaged, or of another package.
        """
        self._states.restore(read_snapshot(self._manifest, snapshot))

    def __repr__(self) -> str:
        kept = ", ".join(map(describe_tensor, self._manifest.signature.states)) or "nothing"
        return f"<tvmake.Session of {self._manifest.model}, which keeps {kept}>"
