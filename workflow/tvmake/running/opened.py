"""What a package and its functions share while it is open: its files, weights, states, and the turn to run."""

from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from tvmake.artifact.functions import FunctionsManifest
from tvmake.artifact.manifest import Manifest
from tvmake.artifact.package import WEIGHTS, AnyManifest, load_functions
from tvmake.artifact.states import PackageStates, StateKey
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
        return PackageStates.of_functions(manifest.own_sha256, signatures)
    return PackageStates.of_network(manifest.own_sha256, manifest.signature)
