"""A package in this process: ``tvmake.open("package.tar").run({...})``."""

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tvmake.artifact.manifest import Manifest
from tvmake.artifact.signature import TensorSpec
from tvmake.running.inputs import Fill, described, fitting

if TYPE_CHECKING:
    from tvmake.device.local.worker import LoadedPackage


class Package:
    """A package whose code is loaded into this process, for as long as the process lives.

    Its digests are checked before anything is loaded; that its author means well is not: run packages of your own.

    Args:
        file: a ``package.tar``.
        threads: of the CPU that kernels may use; None leaves it to TVM, which takes all cores.

    Raises:
        InputError: the package is damaged, or made with another TVM than this one.
        DeviceError: it is for another processor, or for a device that this machine does not have.
    """

    def __init__(self, file: Path | str, threads: int | None = None):
        import platform
        import sys

        from tvmake.artifact.package import LIBRARY
        from tvmake.device import store
        from tvmake.device.architecture import check_library

        self.file = Path(file)
        place = store.put(self.file, store.store_root())
        self.manifest: Manifest = store.stored(place)
        if sys.platform == "linux":
            check_library(place / LIBRARY, platform.machine(), str(self.file))
        self._loaded: LoadedPackage = _loaded(place, self.manifest, threads)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Names, shapes and types of the inputs, in order; an extent that is a name is open."""
        return self.manifest.signature.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Names, shapes and types of the outputs, in order."""
        return self.manifest.signature.outputs

    def run(
        self, inputs: "Mapping[str, np.ndarray] | np.ndarray | None" = None, *, fill: Fill | None = None
    ) -> dict[str, np.ndarray]:
        """Run the network once.

        Args:
            inputs: arrays by the inputs' names; one array alone is for a package with one input.
            fill: ``random``, ``zeros`` or ``ones`` for inputs that are not given; without it all have to be.

        Returns:
            The outputs by their names in the source model, as arrays of their own.

        Raises:
            InputError: an input is unknown, missing, or of another shape or type.
        """
        if inputs is None or isinstance(inputs, Mapping):
            given = dict(inputs or {})
        else:
            given = {self.inputs[0].name: np.asarray(inputs)}
        arrays = fitting(self.manifest.signature, given, fill)
        self._loaded.set_inputs(list(arrays.values()))
        self._loaded.run()
        return {spec.name: value for spec, value in zip(self.outputs, self._loaded.outputs(), strict=True)}

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(described, specs)) for specs in (self.inputs, self.outputs))
        return f"<tvmake.Package {self._variant()}: {inputs} -> {outputs}>"

    def _repr_html_(self) -> str:
        rows = [("input", spec) for spec in self.inputs] + [("output", spec) for spec in self.outputs]
        cells = "".join(f"<tr><td>{kind}</td><td>{escape(described(spec))}</td></tr>" for kind, spec in rows)
        return f"<table><caption>{escape(self._variant())}</caption>{cells}</table>"

    def _variant(self) -> str:
        return f"{self.manifest.model}/{self.manifest.precision}/{self.manifest.target_name}"


def _loaded(place: Path, manifest: Manifest, threads: int | None) -> "LoadedPackage":
    import tvm

    from tvmake.device.local.worker import LoadedPackage
    from tvmake.errors import DeviceError

    if threads is not None:
        tvm.get_global_func("runtime.config_threadpool")(1, threads)
    try:
        return LoadedPackage(place, manifest)
    except (OSError, RuntimeError) as error:
        line = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
        raise DeviceError(
            str(place), f"cannot be loaded here: {line}", "`tvmake doctor` says what this machine has"
        ) from None
