"""What a package and its functions share while it is open: its files, weights, states, and the turn to run."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from tvmake.artifact.functions import FunctionsManifest
from tvmake.artifact.links import link_values
from tvmake.artifact.manifest import Manifest
from tvmake.artifact.package import WEIGHTS, AnyManifest, load_functions
from tvmake.artifact.states import PackageStates, StateKey, state_key
from tvmake.options import Positive
from tvmake.running.arguments import check_is_package, validate_argument

if TYPE_CHECKING:
    from tvmake.device.local.weights import WeightFile, Weights


class Opened:
    """An opened package, in this machine's store.

    Raises:
        InputError: the package is missing or damaged, or ``threads`` is not a number of at least 1.
    """

    def __init__(self, file: Path, threads: int | None):
        from tvmake.device import store

        self.file = file
        check_is_package(file)
        self.absolute_file = file.absolute()  # the working directory may change
        self.threads: int | None = validate_argument("threads", Positive | None, threads)
        self.turn = RLock()  # TVM's virtual machine stores the inputs and outputs of one run
        self.is_closed = False
        self.values: dict[StateKey, Any] = {}
        """The states of the package's own runs."""
        self.directory, self.manifest = store.put_any(file, store.store_root())
        self.networks = _networks(self.directory, self.manifest, str(file))
        """By function; a package with one network has it under an empty name."""
        self.states = _states(self.manifest, self.networks)
        self._weights: WeightFile | None = None

    def weights(self, function: str) -> "Weights":
        """The weights of a function, whose file is mapped once."""
        from tvmake.device.local.weights import WeightFile, Weights

        if self._weights is None:
            self._weights = WeightFile(self.directory / WEIGHTS)
        if not isinstance(self.manifest, FunctionsManifest):
            return Weights(self._weights, [parameter.name for parameter in self.manifest.parameters])
        (names,) = (entry.weights for entry in self.manifest.functions if entry.name == function)
        return Weights(self._weights, names)

    def state_keys(self, function: str) -> list[StateKey]:
        """The keys of a function's states."""
        separate = self.manifest.separate_states if isinstance(self.manifest, FunctionsManifest) else ()
        states = self.networks[function].signature.states
        return [state_key(state, function if state.name in separate else "") for state in states]

    @cached_property
    def links(self) -> dict[str, dict[str, str]]:
        """By function: its outputs that others take, with the names of their inputs or states."""
        if not isinstance(self.manifest, FunctionsManifest):
            return {}
        return {entry.name: entry.links for entry in self.manifest.functions if entry.links}

    def linked_inputs(self, function: str) -> dict[str, tuple[StateKey, str]]:
        """The inputs of a function that another one gives: their keys in a session, and that function's name."""
        givers = {
            target: giver for giver, pairs in self.links.items() for target in pairs.values() if giver != function
        }
        inputs = self.networks[function].signature.inputs if givers else ()
        return {spec.name: (state_key(spec), givers[spec.name]) for spec in inputs if spec.name in givers}

    def keep_outputs(self, function: str, outputs: Mapping[str, np.ndarray], values: dict[StateKey, Any]) -> None:
        """Keep the outputs of a function that others take.

        Raises:
            InputError: one of them takes it in another size.
        """
        if pairs := self.links.get(function):
            signatures = {name: network.signature for name, network in self.networks.items()}
            separate = self.manifest.separate_states if isinstance(self.manifest, FunctionsManifest) else ()
            for output, target in pairs.items():
                values |= link_values(target, outputs[output], signatures, separate)

    def close(self) -> None:
        """Release the weights and states."""
        self.is_closed = True
        self._weights = None
        self.values = {}


def _networks(directory: Path, manifest: AnyManifest, where: str) -> dict[str, Manifest]:
    return load_functions(directory, manifest, where) if isinstance(manifest, FunctionsManifest) else {"": manifest}


def _states(manifest: AnyManifest, networks: dict[str, Manifest]) -> PackageStates:
    if isinstance(manifest, FunctionsManifest):
        signatures = {name: network.signature for name, network in networks.items()}
        linked = {target for entry in manifest.functions for target in entry.links.values()}
        return PackageStates.of_functions(manifest.own_sha256, signatures, linked, manifest.separate_states)
    return PackageStates.of_network(manifest.own_sha256, manifest.signature)
