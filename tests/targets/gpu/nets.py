"""Expressions as networks for GPUs, by rules and as plain loops on the CPU."""

from typing import Any

import numpy as np
import tvm

from tests.targets.adreno_texture.nets import executable, lowered, target
from tests.targets.cpu.schedules.nets import BASELINE, result, values
from tests.targets.cpu.schedules.nets import lowered as lowered_for_cpu
from tests.unoptimised import UNOPTIMISED
from tvmake.codegen.weights import packed_weights
from tvmake.native.backend import opencl_library
from tvmake.targets.gpu.bound_rule import BoundRule


def kernels_by_rule(rule: Any, expression: Any, *inputs: Any, name: str) -> list[str]:
    """The kernels of a network that a rule schedules to run entirely on the device."""
    kernels = lowered(expression, *inputs, name=name).unscheduled.functions_items()
    return [
        str(symbol.name_hint)
        for symbol, kernel in kernels
        if isinstance(kernel, tvm.tirx.PrimFunc) and BoundRule(rule).apply(kernel, target(name), False) is not None
    ]


def error(expression: Any, *inputs: Any, name: str) -> float:
    """The largest difference between this machine's OpenCL device and plain loops, relative to the largest value."""
    arguments = values(*inputs)
    made = lowered(expression, *inputs, name=name)
    opencl_library()
    device = tvm.device("opencl", 0)
    tensors = [tvm.runtime.tensor(value) for value in arguments]
    if made.packings:
        params = {f"x{index}": tensor for index, tensor in enumerate(tensors) if index}
        names = [str(parameter.name) for parameter in made.fused["main"].params[1:]]
        tensors = [tensors[0], *packed_weights(params, made.packings, names).values()]
    machine = tvm.relax.VirtualMachine(executable(made, name), device)
    found = machine["main"](*(tvm.runtime.tensor(tensor.numpy(), device) for tensor in tensors)).numpy()
    plain = result(lowered_for_cpu(expression, *inputs, rules=False, target=BASELINE), arguments, UNOPTIMISED)
    assert found.shape == plain.shape
    assert found.dtype == plain.dtype
    difference = np.abs(found.astype("float64") - plain.astype("float64"))
    return float(difference.max() / np.abs(plain).max())
