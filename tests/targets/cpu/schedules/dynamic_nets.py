"""Kernels with dynamic dimensions: many in one module, which is built once and run at many sizes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm

from tests.targets.cpu.schedules.nets import NATIVE, values
from tests.tune.graphs import Shape
from tvmake.codegen.link import generate
from tvmake.codegen.lowering import lower
from tvmake.codegen.options import BuildOptions, PassOptions
from tvmake.codegen.weights import packed_weights

from tvm import relax, tirx  # isort: skip


@dataclass(frozen=True)
class Case:
    """An expression, and its equivalent in NumPy or PyTorch. Shapes name their dynamic dimensions."""

    expression: Callable[..., Any]
    expected: Callable[..., Any]
    inputs: Sequence[Shape]
    weights: Sequence[Shape] = ()


def tensor(*shape: int | str, dtype: str = "float32") -> Shape:
    return shape, dtype


class DynamicNetwork:
    """Cases as one network, with a result for each."""

    def __init__(
        self,
        cases: Mapping[str, Case],
        target: Any = NATIVE,
        draw: Callable[..., Any] = values,
        device: Callable[[], "tvm.runtime.Device"] = tvm.cpu,
    ):
        """
        Args:
            cases: by name.
            target: what to build for.
            draw: values for shapes.
            device: where to run.
        """
        self.cases, self.draw, self.device = cases, draw, device()
        inputs = [shape for case in cases.values() for shape in case.inputs]
        weights = [shape for case in cases.values() for shape in case.weights]
        variables = {name: tirx.Var(name, "int64") for name in self._names([*inputs, *weights])}
        shapes = [([variables.get(length, length) for length in shape], dtype) for shape, dtype in [*inputs, *weights]]
        arguments = [relax.Var(f"x{number}", relax.TensorType(*shape)) for number, shape in enumerate(shapes)]
        builder = relax.BlockBuilder()
        data, constants = iter(arguments), iter(arguments[len(inputs) :])
        with builder.function("main", arguments):
            with builder.dataflow():
                results = [
                    builder.emit_output(
                        builder.normalize(
                            case.expression(
                                *(next(data) for _ in case.inputs), *(next(constants) for _ in case.weights)
                            )
                        )
                    )
                    for case in cases.values()
                ]
            builder.emit_func_output(relax.Tuple(results))
        self.lowered = lower(builder.get(), target, [], PassOptions(), len(inputs))
        self.kernels = {
            str(name.name_hint): function
            for name, function in self.lowered.fused.functions_items()
            if isinstance(function, tirx.PrimFunc)
        }
        self._weights = draw(*weights, seed=1)
        names = [str(parameter.name) for parameter in self.lowered.fused["main"].params[len(inputs) :]]
        tensors = {f"x{len(inputs) + number}": tvm.runtime.tensor(value) for number, value in enumerate(self._weights)}
        packed = packed_weights(tensors, self.lowered.packings, names).values()
        self._packed = [tvm.runtime.tensor(value.numpy(), self.device) for value in packed]
        executable = generate(self.lowered.final, target, BuildOptions(), "targets.t")
        self._machine = relax.VirtualMachine(executable, self.device)

    @staticmethod
    def _names(shapes: Sequence[Shape]) -> list[str]:
        return sorted({length for shape, _ in shapes for length in shape if isinstance(length, str)})

    def results(self, **sizes: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """By case, for sizes of the dynamic dimensions: the computed and the expected result."""
        shapes = [shape for case in self.cases.values() for shape in case.inputs]
        data = self.draw(*((tuple(sizes.get(length, length) for length in shape), dtype) for shape, dtype in shapes))
        found = self._machine["main"](*(tvm.runtime.tensor(value, self.device) for value in data), *self._packed)
        arguments, constants = iter(data), iter(self._weights)
        return {
            name: (
                result.numpy(),
                np.asarray(
                    case.expected(*(next(arguments) for _ in case.inputs), *(next(constants) for _ in case.weights))
                ),
            )
            for (name, case), result in zip(self.cases.items(), found, strict=True)
        }


def error(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, relative to the largest value."""
    assert found.shape == expected.shape
    if not found.size:
        return 0.0
    difference = np.abs(found.astype("float64") - expected.astype("float64")).max()
    return float(difference / max(1e-30, np.abs(expected.astype("float64")).max()))
