"""A network as a function on this machine's CPU."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm

from tvmake.codegen.link import generate
from tvmake.codegen.lowering import lower
from tvmake.codegen.options import BuildOptions
from tvmake.codegen.weights import packed_weights


def runner(
    module: "tvm.IRModule", weights: Mapping[str, Any], inputs: int
) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
    """A function from the inputs to the values that a network returns.

    Code for this machine's family of processors in general, so that values do not depend on which of them it is.

    Args:
        module: with its weights as trailing arguments of ``main``.
        weights: by the arguments' names.
        inputs: how many arguments of ``main`` are no weights.
    """
    target = tvm.target.Target({"kind": "llvm"})
    lowered = lower(module, target, (), BuildOptions(), inputs)
    executable = generate(lowered.final, target, BuildOptions(), "llvm")
    machine = tvm.relax.VirtualMachine(executable, tvm.cpu())
    parameters = [str(parameter.name) for parameter in lowered.fused["main"].params[inputs:]]
    packed = packed_weights(weights, lowered.packings, parameters) if lowered.packings else weights
    arguments = [packed[name] for name in parameters]

    def run(values: Sequence[np.ndarray]) -> list[np.ndarray]:
        found = machine["main"](*map(tvm.runtime.tensor, values), *arguments)
        return [one.numpy() for one in ([found] if isinstance(found, tvm.runtime.Tensor) else found)]

    return run
