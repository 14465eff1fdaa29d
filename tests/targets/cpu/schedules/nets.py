"""Expressions as networks for CPUs, with and without rules, and their results."""

from typing import Any

import numpy as np
import tvm

from tests.tune.graphs import Shape, graph
from tests.unoptimised import UNCHECKED, UNOPTIMISED
from tvmake.codegen.link import generate
from tvmake.codegen.lowering import Lowered, lower
from tvmake.codegen.options import PassOptions
from tvmake.codegen.weights import packed_weights
from tvmake.targets.cpu.native import native_attributes

NATIVE = tvm.target.Target({"kind": "llvm", **native_attributes()})
BASELINE = tvm.target.Target({"kind": "llvm"})
"""The vectors that every CPU of the architecture has."""


def lowered(expression: Any, *inputs: Shape, rules: bool = True, target: Any = NATIVE) -> Lowered:
    """A lowered network; all inputs but the first are weights."""
    return lower(graph(expression, *inputs), target, [], PassOptions(), 1, rules=rules)


def values(*inputs: Shape, seed: int = 0) -> list[np.ndarray]:
    """Values for a network's inputs."""
    generator = np.random.default_rng(seed)
    return [
        generator.standard_normal(shape).astype(dtype)
        if dtype.startswith("float")
        else generator.integers(-9, 9, shape).astype(dtype)
        for shape, dtype in inputs
    ]


def result(made: Lowered, arguments: list[np.ndarray], target: Any = NATIVE) -> np.ndarray:
    """The result of a lowered network."""
    tensors = [tvm.runtime.tensor(value) for value in arguments]
    if made.packings:
        params = {f"x{index}": tensor for index, tensor in enumerate(tensors) if index}
        names = [str(parameter.name) for parameter in made.fused["main"].params[1:]]
        tensors = [tensors[0], *packed_weights(params, made.packings, names).values()]
    executable = generate(made.final, target, UNCHECKED, "targets.t")
    return tvm.relax.VirtualMachine(executable, tvm.cpu())["main"](*tensors).numpy()


def error(expression: Any, *inputs: Shape, target: Any = NATIVE) -> float:
    """The largest difference between results with and without rules, relative to the largest value."""
    arguments = values(*inputs)
    with_rules = result(lowered(expression, *inputs, target=target), arguments, target)
    plain = result(lowered(expression, *inputs, rules=False, target=target), arguments, UNOPTIMISED)
    assert with_rules.shape == plain.shape
    assert with_rules.dtype == plain.dtype
    difference = np.abs(with_rules.astype("float64") - plain.astype("float64"))
    return float(np.nanmax(difference) / max(1e-30, float(np.nanmax(np.abs(plain)))))
