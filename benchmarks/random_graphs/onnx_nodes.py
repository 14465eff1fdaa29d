"""Steps that are ONNX nodes, each run by ONNX Runtime, so that they are drawn and judged like PyTorch's."""

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from .network import Network, Options, Program

OPSET, IR_VERSION = 20, 9

TYPES = {torch.float32: TensorProto.FLOAT, torch.int64: TensorProto.INT64, torch.bool: TensorProto.BOOL}

Slot = int | np.ndarray | None
"""An operand by its number, a constant, or nothing."""


class Node(nn.Module):
    """One node of a graph.

    Args:
        inputs: where the node's inputs come from; all operands in their order where they are left out.
        outputs: how many outputs it has.
        taken: which of them is the step's value.
        attributes: those of the node.
    """

    def __init__(
        self, operator: str, inputs: Sequence[Slot] = (), *, outputs: int = 1, taken: int = 0, **attributes: Any
    ):
        super().__init__()
        self.operator, self.inputs, self.attributes = operator, inputs, attributes
        self.outputs, self.taken = outputs, taken
        self.sessions: dict[tuple[torch.Size, ...], Any] = {}

    def forward(self, *operands: Tensor) -> Tensor:
        """The value, from ONNX Runtime."""
        shapes = tuple(value.shape for value in operands)
        if shapes not in self.sessions:
            names = [f"x{number}" for number in range(len(operands))]
            nodes, constants = self.parts(names, "y")
            given = [_declared(name, value) for name, value in zip(names, operands, strict=True)]
            self.sessions[shapes] = session(_model(nodes, constants, given, ["y"]))
        feeds = {f"x{number}": value.contiguous().numpy() for number, value in enumerate(operands)}
        return torch.from_numpy(np.array(run(self.sessions[shapes], ["y"], feeds)[0]))

    def parts(self, names: Sequence[str], result: str) -> tuple[list[Any], list[Any]]:
        """The node, and its constants as initializers.

        Args:
            names: of the operands.
            result: the name of the step's value.
        """
        constants, given = [], []
        for number, slot in enumerate(self.inputs or range(len(names))):
            if isinstance(slot, np.ndarray):
                given.append(f"{result}_constant{number}")
                constants.append(numpy_helper.from_array(slot, given[-1]))
            else:
                given.append("" if slot is None else names[slot])
        results = [result if number == self.taken else f"{result}_{number}" for number in range(self.outputs)]
        return [helper.make_node(self.operator, given, results, **self.attributes)], constants


class RuntimeRefusesError(RuntimeError):
    """ONNX Runtime refuses a network, or its values: there is nothing to compare with."""


def session(model: "onnx.ModelProto") -> Any:
    """A model in ONNX Runtime, without its approximations.

    Raises:
        RuntimeRefusesError: ONNX Runtime refuses it.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no base of their own
        raise RuntimeRefusesError(str(error)) from error


def run(session: Any, outputs: list[str], feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Outputs of a session.

    Raises:
        RuntimeRefusesError: ONNX Runtime refuses these values.
    """
    try:
        found: list[np.ndarray] = session.run(outputs, feeds)
    except Exception as error:  # its exceptions have no base of their own
        raise RuntimeRefusesError(str(error)) from error
    return found


def model_of(network: Network, program: Program) -> "onnx.ModelProto":
    """The whole network as a model."""
    first = len(network.inputs)
    nodes, constants = [], []
    for number, (step, part) in enumerate(zip(network.steps, program.parts, strict=True), first):
        some, theirs = part.parts([f"v{operand}" for operand in step.operands], f"v{number}")
        nodes += some
        constants += theirs
    given = [_declared(f"v{number}", value) for number, value in enumerate(network.examples())]
    for declared, one in zip(given, network.inputs, strict=True):
        for dimension in one.dimensions:
            declared.type.tensor_type.shape.dim[dimension.axis].dim_param = dimension.name
    return _model(nodes, constants, given, [f"v{number}" for number in network.outputs])


def _declared(name: str, value: Tensor) -> Any:
    return helper.make_tensor_value_info(name, TYPES[value.dtype], list(value.shape))


def _model(nodes: list[Any], constants: list[Any], inputs: list[Any], outputs: list[str]) -> "onnx.ModelProto":
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(nodes, "random", inputs, results, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    # Outputs have to be declared.
    known = {value.name: value for value in onnx.shape_inference.infer_shapes(model).graph.output}
    del graph.output[:]
    graph.output.extend(known[name] for name in outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


def weights(*shape: int, spread: float = 0.5) -> np.ndarray:
    """Drawn weights."""
    return (torch.randn(shape) * spread).numpy()


def integers(*values: int) -> np.ndarray:
    """A constant list, as shapes and axes are."""
    return np.array(values, np.int64)


def drawn_axes(rng: Random, x: Tensor) -> tuple[int, ...]:
    """One axis or several, counted from either end."""
    axes = rng.sample(range(x.dim()), rng.choice((1, 1, min(2, x.dim()), x.dim())))
    return tuple(axis - x.dim() if rng.random() < 0.3 else axis for axis in axes)


def no_options(rng: Random, x: Tensor) -> Options | None:
    """For operators of floats without options."""
    return {} if x.dtype == torch.float32 else None


def plain(x: Tensor, *others: Tensor, operator: str, **options: Any) -> Node:
    """A node without constants, whose operator is drawn."""
    return Node(operator, **options)
