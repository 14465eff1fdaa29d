"""Relax modules in TVM itself: unchanged, for this machine's CPU, by TVM's default pipeline.

No other framework runs Relax. Such a reference shows that tvmake compiles the module correctly, not that the module is correct.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from tvmake.artifact.signature import Signature
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions
from tvmake.validate.runtime import Runtime, library_version


def open_model(source: str, options: ImportOptions, signature: Signature) -> Runtime:
    """The module, compiled by TVM's default pipeline.

    Raises:
        InputError: the function returns no usable module, or TVM cannot compile it.
    """
    call, weights = plain(source, options)
    names = [spec.name for spec in signature.outputs]

    def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return dict(zip(names, call([inputs[spec.name] for spec in signature.inputs])(), strict=True))

    return Runtime(library_version("apache-tvm"), run, weights)


def plain(
    source: str, options: ImportOptions
) -> tuple[Callable[[list[np.ndarray]], Callable[[], list[np.ndarray]]], str]:
    """A function from inputs to a call that returns outputs, and the parameters' digest."""
    import tvm

    from tvmake.frontend.relax.importer import read

    from tvm import relax  # isort: skip

    model = read(Path(source), options)
    try:
        machine = relax.VirtualMachine(tvm.compile(model.module, target="llvm"), tvm.cpu())
    except Exception as error:
        line = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        problem = f"TVM cannot compile it unchanged: {type(error).__name__}: {line[:200]}"
        raise InputError(source, problem, "try tvm.compile(module, target='llvm')") from error
    params = [
        tvm.runtime.tensor(value.numpy() if hasattr(value, "numpy") else value) for value in model.params.values()
    ]

    def prepared(inputs: list[np.ndarray]) -> Callable[[], list[np.ndarray]]:
        arguments = [*(tvm.runtime.tensor(value) for value in inputs), *params]

        def run() -> list[np.ndarray]:
            outputs = machine["main"](*arguments)
            return [tensor.numpy() for tensor in ([outputs] if isinstance(outputs, tvm.runtime.Tensor) else outputs)]

        return run

    return prepared, str(model.notes["weights"])
