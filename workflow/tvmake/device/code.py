"""Whether mod.so matches its manifest: digests do not show that a manifest was written for other code."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from re import escape, search
from typing import Any

import numpy as np

from tvmake.artifact.manifest import Manifest
from tvmake.artifact.package import AGAIN
from tvmake.errors import InputError
from tvmake.ir.attributes import SIZE_CHECK_MARK
from tvmake.process.output import counted

MAIN = "main"

ARGUMENT = r"ErrorContext\(fn=main, loc=param\[\d+\], param=(.+?), annotation=R\.Tensor\(\((.*?)\), dtype=\"(\w+)\"\)\)"
"""The virtual machine's error for an argument of ``main`` with another type or shape."""

SIZE_CHECK = rf"\((-?\d+) vs\. (-?\d+)\).*?{escape(SIZE_CHECK_MARK)}(.*?){escape(SIZE_CHECK_MARK)}"
"""The virtual machine's error for a failed size check: the two sizes, and the network's message."""


DATA_SIZE = r"\((-?\d+) vs\. (-?\d+)\)[^\n]*ErrorContext\(match_cast[^\n]*\n?\s*match_cast error"
"""The virtual machine's error for a tensor of another size than the network computes with: only data have such sizes."""

NO_SIZE = r"storage allocation failure, attempted to allocate|std::bad_alloc"
"""The virtual machine's error for a tensor that a size makes too large, or smaller than nothing."""


def check_arguments(machine: Any, manifest: Manifest) -> None:
    """Compare the names of ``main``'s arguments with the manifest.

    Raises:
        InputError: the names or their order differ.
    """
    count = machine["get_function_arity"](MAIN)
    actual = [str(machine["get_function_param_name"](MAIN, index)) for index in range(count)]
    expected = [spec.relax_name for spec in manifest.signature.arguments] + [
        parameter.name for parameter in manifest.parameters
    ]
    if len(actual) != len(expected):
        raise _other(f"takes {counted(len(actual), 'argument')}", str(len(expected)))
    index = next(
        (index for index, names in enumerate(zip(actual, expected, strict=True)) if names[0] != names[1]), None
    )
    if index is not None:
        raise _other(f"takes '{actual[index]}' as argument {index}", f"'{expected[index]}'")


def check_kind(library: Any, manifest: Manifest) -> None:
    """Check that the library has kernels for the manifest's kind of device.

    Raises:
        InputError: it has none.
    """
    kind = manifest.device_kind
    if kind != "cpu" and manifest.kernels and kind not in _kinds(library):
        raise _other(f"has no kernels for {kind}", "that it has")


def _kinds(module: Any) -> set[str]:
    return {module.kind}.union(*map(_kinds, module.imports))


def check_outputs(values: Sequence[np.ndarray], manifest: Manifest) -> None:
    """Compare the outputs of a run with the manifest.

    Raises:
        InputError: the number, a type or a shape differs.
    """
    specs = manifest.signature.outputs
    if len(values) != len(specs):
        raise _other(f"gives {counted(len(values), 'output')}", str(len(specs)))
    for spec, value in zip(specs, values, strict=True):
        fits = len(value.shape) == len(spec.shape) and all(
            isinstance(declared, str) or declared == actual
            for declared, actual in zip(spec.shape, value.shape, strict=True)
        )
        if str(value.dtype) != spec.dtype or not fits:
            actual = f"{value.dtype}{list(value.shape)}"
            raise _other(f"gives '{spec.name}' as {actual}", f"{spec.dtype}{list(spec.shape)}")


@contextmanager
def checking_arguments() -> Iterator[None]:
    """Translate the virtual machine's errors for arguments that match the manifest.

    Raises:
        InputError: an argument has another type or shape than the code expects, or a size that the network cannot compute.
    """
    try:
        yield
    except (RuntimeError, ValueError, TypeError) as error:
        if match := search(SIZE_CHECK, str(error)):
            size, expected, report = match.groups()
            raise InputError("inputs", report.format(size, expected), "use inputs of valid sizes") from None
        if match := search(ARGUMENT, str(error)):
            name, shape, dtype = match.groups()
            raise _other(f"takes '{name}' as {dtype}[{shape.rstrip(',')}]", "otherwise") from None
        if match := search(DATA_SIZE, str(error)):
            problem = f"their values select {match[1]} elements or rows where the network computes with {match[2]}"
            raise InputError("inputs", problem, "use inputs for which it selects as many") from None
        if search(NO_SIZE, str(error)):
            problem = "their sizes give a tensor that does not fit into memory, or that is smaller than an empty one"
            raise InputError("inputs", problem, "use inputs of other sizes") from None
        raise


def _other(code: str, declared: str) -> InputError:
    return InputError("package", f"mod.so {code}, its manifest declares {declared}", AGAIN)
