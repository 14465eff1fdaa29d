"""The noise of each operator of a package, relative to the original network.

The package's network runs kernel by kernel in plain loops, and the imported network operator by operator in its own precision. Values
are paired by content (:mod:`tvmake.debug.departure`), so fusion, folding and layouts do not matter.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tvm

from tvmake.artifact.operator_errors import OperatorError, OperatorErrors
from tvmake.artifact.signature import Signature
from tvmake.artifact.states import initial_states
from tvmake.codegen.generating import lower_and_generate
from tvmake.codegen.kernels import graph
from tvmake.codegen.weights import packed_weights
from tvmake.config.requests.building import BuildRequest
from tvmake.debug.departure import ValuePool
from tvmake.debug.relax_values import Step, Trace, main_arguments, trace_kernels, trace_operators
from tvmake.errors import InputError
from tvmake.records.best import BestSet
from tvmake.targets.resolve import tvm_target

UNRELATED = 0.9
"""Noise of at least this share of a value's RMS: no value of the other network is related to it."""

DYNAMIC = "the network has dynamic dimensions; `dims` fixes them"


def operator_errors(
    imported: "tvm.IRModule",
    weights: Mapping[str, Any],
    module: "tvm.IRModule",
    params: Mapping[str, Any],
    signature: Signature,
    inputs: Mapping[str, np.ndarray],
    request: BuildRequest,
    best: BestSet | None,
) -> OperatorErrors:
    """The noise of each kernel's result, for one sample.

    Args:
        imported: the imported network.
        weights: its parameters.
        module: the network that the package is built from.
        params: its parameters.
        inputs: the sample, by name, with which states begin.
        request: the build.
        best: its records; None without.

    Raises:
        InputError: a kernel cannot be generated.
    """
    if any(isinstance(extent, str) for spec in signature.arguments for extent in spec.shape):
        return OperatorErrors(why_not=DYNAMIC)
    states = initial_states(signature, inputs)
    arrays = [*(inputs[spec.name] for spec in signature.inputs), *(states[spec.name] for spec in signature.states)]
    target = tvm_target(request.target, f"targets.{request.target_name}")
    lowered, _ = lower_and_generate(module, target, request, len(arrays), best)
    names = [str(parameter.name) for parameter in lowered.unscheduled["main"].params[len(arrays) :]]
    packed = packed_weights(params, lowered.packings, names) if lowered.packings else params
    try:
        first = trace_operators(imported, main_arguments(imported, arrays, weights))
        second = trace_kernels(lowered.unscheduled, main_arguments(lowered.unscheduled, arrays, packed))
    except InputError as error:  # an operator cannot run alone
        return OperatorErrors(why_not=error.problem)
    kernels = {step.kernel for step in second.steps}
    calls = [(place, node.call) for place, node in enumerate(graph(lowered.fused, ["main"])) if node.call in kernels]
    return OperatorErrors(operators=_errors(first, second, arrays, calls))


def _errors(
    first: Trace, second: Trace, inputs: Sequence[np.ndarray], calls: Sequence[tuple[int, str]]
) -> list[OperatorError]:
    pool = ValuePool([*inputs, *(value.array for value in first.values)])
    steps = [step for step in second.steps if step.kernel is not None]
    return [
        OperatorError(position=place, kernel=kernel, noise=_noise(step, pool))
        for (place, kernel), step in zip(calls, steps, strict=True)
    ]


def _noise(step: Step, pool: ValuePool) -> float | None:
    """The largest noise of a kernel's results."""
    results = [value.array for value in step.values() if value.array.size > 1 and value.array.dtype.kind in "fiu"]
    noises = [pool.noise(array) for array in results]
    related = [noise for noise in noises if noise < UNRELATED]
    return max(related, default=None)
