"""Run a network on this machine's CPU."""

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
    """A function from a network's inputs to its results.

    The code is generic for this machine's architecture, so results do not depend on the processor model.

    Args:
        module: with its weights as trailing arguments of ``main``.
        weights: by the arguments' names.
        inputs: number of ``main``'s arguments that are not weights.
    """
    target = tvm.target.Target({"kind": "llvm"})
    lowered = lower(module, target, (), BuildOptions(), inputs)
    executable = generate(lowered.final, target, BuildOptions(), "llvm")
    machine = tvm.relax.VirtualMachine(executable, tvm.cpu())
    parameters = [str(parameter.name) for parameter in lowered.fused["main"].params[inputs:]]
    packed = packed_weights(weights, lowered.packings, parameters) if lowered.packings else weights
    arguments = [packed[name] for name in parameters]

    def run(values: Sequence[np.ndarray]) -> list[np.ndarray]:
        results = machine["main"](*map(tvm.runtime.tensor, values), *arguments)
        return [value.numpy() for value in ([results] if isinstance(results, tvm.runtime.Tensor) else results)]

    return run
