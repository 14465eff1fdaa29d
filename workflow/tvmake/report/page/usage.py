"""How a package is run, as text to copy: from the command line and from Python."""

import shlex
from dataclasses import dataclass

from tvmake.artifact.manifest import Manifest
from tvmake.artifact.signature import TensorSpec


@dataclass(frozen=True)
class Usage:
    """A way to run a package."""

    title: str
    text: str


def usages(manifest: Manifest, package: str, device: str | None) -> list[Usage]:
    """The ways to run a package; none without a device.

    Args:
        manifest: the package's mod.json.
        package: its path, from where `tvmake` is called.
        device: the config's name of the device that it is for.
    """
    if not device:
        return []
    there = f" --device {shlex.quote(device)}" if device != "local" else ""
    command = Usage("Command line", f"tvmake run {shlex.quote(package)}{there} --repeat 100")
    return [command] if there else [command, Usage("Python", _python(manifest.signature.inputs, package))]


def _python(inputs: tuple[TensorSpec, ...], package: str) -> str:
    arrays = ", ".join(f"{tensor.name!r}: numpy.zeros({_extents(tensor)!r}, {tensor.dtype!r})" for tensor in inputs)
    return (
        "import numpy\nimport tvmake\n\n"
        f"package = tvmake.open({package!r})\n"
        f"outputs = package.run({{{arrays}}})  # arrays by the names of the outputs"
    )


def _extents(tensor: TensorSpec) -> tuple[int, ...]:
    """The shape, with 1 for dynamic dimensions."""
    return tuple(extent if isinstance(extent, int) else 1 for extent in tensor.shape)
