"""Whether mod.so is the code that its manifest is about: digests do not tell where a manifest was written for other code."""

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
"""How TVM's virtual machine says what an argument of ``main`` has to be."""

SIZE_CHECK = rf"\((-?\d+) vs\. (-?\d+)\).*?{escape(SIZE_CHECK_MARK)}(.*?){escape(SIZE_CHECK_MARK)}"
"""How it reports a size check: the two sizes, and what the network says of them."""


def check_arguments(machine: Any, manifest: Manifest) -> None:
    """Compare the names of what ``main`` takes.

    Args:
        machine: the virtual machine's module.

    Raises:
        InputError: there are other ones, or in another order.
    """
    count = machine["get_function_arity"](MAIN)
    taken = [str(machine["get_function_param_name"](MAIN, place)) for place in range(count)]
    told = [spec.relax_name for spec in manifest.signature.inputs] + [one.name for one in manifest.parameters]
    if len(taken) != len(told):
        raise _other(f"takes {counted(len(taken), 'argument')}", str(len(told)))
    place = next((place for place, pair in enumerate(zip(taken, told, strict=True)) if pair[0] != pair[1]), None)
    if place is not None:
        raise _other(f"takes '{taken[place]}' as argument {place}", f"'{told[place]}'")


def check_kind(library: Any, manifest: Manifest) -> None:
    """Compare the kind of device that there are kernels for.

    Args:
        library: mod.so as TVM loads it.

    Raises:
        InputError: there are none for the manifest's.
    """
    kind = manifest.device_kind
    if kind != "cpu" and manifest.kernels and kind not in _kinds(library):
        raise _other(f"has no kernels for {kind}", "that it has")


def _kinds(module: Any) -> set[str]:
    return {module.kind}.union(*map(_kinds, module.imports))


def check_outputs(values: Sequence[np.ndarray], manifest: Manifest) -> None:
    """Compare what came out.

    Raises:
        InputError: there are more or fewer, or one has another type or shape.
    """
    specs = manifest.signature.outputs
    if len(values) != len(specs):
        raise _other(f"gives {counted(len(values), 'output')}", str(len(specs)))
    for spec, value in zip(specs, values, strict=True):
        fits = len(value.shape) == len(spec.shape) and all(
            isinstance(told, str) or told == given for told, given in zip(spec.shape, value.shape, strict=True)
        )
        if str(value.dtype) != spec.dtype or not fits:
            given = f"{value.dtype}{list(value.shape)}"
            raise _other(f"gives '{spec.name}' as {given}", f"{spec.dtype}{list(spec.shape)}")


@contextmanager
def checking_arguments() -> Iterator[None]:
    """Translate what the virtual machine says of arguments that are as the manifest tells.

    Raises:
        InputError: an argument has another type or shape, or a size for which the network cannot be computed.
    """
    try:
        yield
    except (RuntimeError, ValueError, TypeError) as error:
        if found := search(SIZE_CHECK, str(error)):
            size, wanted, report = found.groups()
            raise InputError("inputs", report.format(size, wanted), "give inputs of sizes that fit") from None
        if found := search(ARGUMENT, str(error)):
            name, shape, dtype = found.groups()
            raise _other(f"takes '{name}' as {dtype}[{shape.rstrip(',')}]", "otherwise") from None
        raise


def _other(code: str, told: str) -> InputError:
    return InputError("package", f"mod.so {code}, its manifest tells {told}", AGAIN)
