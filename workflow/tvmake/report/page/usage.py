"""How a package is run, as text to copy: from the command line, from Python, from C++."""

import json
import shlex
from dataclasses import dataclass

from tvmake.artifact.manifest import Manifest
from tvmake.artifact.signature import TensorSpec

CPP_TYPES = {
    "float32": "float",
    "float64": "double",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "uint8": "uint8_t",
    "bool": "uint8_t",
}
BITS = {"float16": "uint16_t", "bfloat16": "uint16_t"}
"""Types that C++ lacks, by the integer types of the same size."""


@dataclass(frozen=True)
class Usage:
    """A way to run a package."""

    title: str
    text: str


def usages(manifest: Manifest, package: str, device: str | None) -> list[Usage]:
    """The ways to run a package.

    Args:
        manifest: the package's mod.json.
        package: its path, from where `tvmake` is called.
        device: the config's name of the device that it is for.
    """
    inputs = manifest.signature.inputs
    there = f" --device {shlex.quote(device)}" if device and device != "local" else ""
    ways = []
    if device:
        ways.append(Usage("Command line", f"tvmake run {shlex.quote(package)}{there} --repeat 100"))
    if device and not there:
        ways.append(Usage("Python", _python(inputs, package)))
    ways.append(Usage("C++", _cpp(inputs, package, manifest.device_kind)))
    return ways


def _python(inputs: tuple[TensorSpec, ...], package: str) -> str:
    arrays = ", ".join(f"{tensor.name!r}: numpy.zeros({_extents(tensor)!r}, {tensor.dtype!r})" for tensor in inputs)
    return (
        "import numpy\nimport tvmake\n\n"
        f"package = tvmake.open({package!r})\n"
        f"outputs = package.run({{{arrays}}})  # arrays by the names of the outputs"
    )


def _cpp(inputs: tuple[TensorSpec, ...], package: str, device: str) -> str:
    directory = "package"
    lines = [
        f"// mkdir {directory} && tar -xf {shlex.quote(package)} -C {directory}",
        "#include <tvmake/package.h>",
        "#include <vector>",
        "",
        f"auto package = tvmake::Package::Load({json.dumps(directory)}, {json.dumps(device)});",
    ]
    for number, tensor in enumerate(inputs):
        extents = _extents(tensor)
        count = " * ".join(map(str, extents)) or "1"
        kind = CPP_TYPES.get(tensor.dtype) or f"{BITS.get(tensor.dtype, 'uint8_t')} /* {tensor.dtype} */"
        shape = ", ".join(map(str, extents))
        lines.append(f"std::vector<{kind}> input{number}({count});")
        lines.append(f"package.SetInput({json.dumps(tensor.name)}, input{number}.data(), {{{shape}}});")
    return "\n".join([*lines, "package.Run();", "tvmake::Tensor output = package.Output(0);"])


def _extents(tensor: TensorSpec) -> tuple[int, ...]:
    """The shape, with 1 for dynamic dimensions."""
    return tuple(extent if isinstance(extent, int) else 1 for extent in tensor.shape)
