"""Insert the type conversions that PyTorch's operators do implicitly, because TVM's importer lacks some.

Repair: `torch-promotion`.
"""

from typing import Any

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram

BINARY = {
    "add", "sub", "mul", "div", "floor_divide", "remainder", "fmod", "pow", "maximum", "minimum", "atan2",
    "eq", "ne", "lt", "le", "gt", "ge",
}  # fmt: skip
"""Operators that compute in the common type of their two operands."""

FLOATING = {
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "expm1", "log", "log10", "log1p", "log2",
    "reciprocal", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh",
}  # fmt: skip
"""Operators that return floating-point values for integers."""


def promote(program: ExportedProgram) -> None:
    """Insert all implicit type conversions into a program's graph, in place.

    Args:
        program: without operators that change tensors in place, as ``run_decompositions`` leaves it.
    """
    for node in list(program.graph.nodes):
        for position, dtype in _conversions(node):
            operand = node.args[position]
            with program.graph.inserting_before(node):
                converted = program.graph.call_function(torch.ops.aten._to_copy.default, (operand,), {"dtype": dtype})
            converted.meta = {"val": operand.meta["val"].to(dtype)}
            node.update_arg(position, converted)
    program.graph_module.recompile()


def _conversions(node: fx.Node) -> list[tuple[int, torch.dtype]]:
    """Positions of the operands that a node converts before it computes, with their new types."""
    if not isinstance(node.target, torch._ops.OpOverload) or not isinstance(node.meta.get("val"), Tensor):
        return []
    name = node.target.overloadpacket.__name__
    if name in FLOATING:
        operands, dtype = [0], node.meta["val"].dtype
    elif name in BINARY and len(node.args) > 1:
        operands, dtype = [0, 1], _common_type(node)
    elif name == "where":
        operands, dtype = [1, 2], node.meta["val"].dtype
    else:
        return []
    return [(position, dtype) for position in operands if _dtype(node.args[position]) not in (None, dtype)]


def _common_type(node: fx.Node) -> torch.dtype:
    left, right = (_example(operand) for operand in node.args[:2])
    common = torch.result_type(left, right)
    if (
        node.target.overloadpacket.__name__ == "div"
        and not common.is_floating_point
        and not node.kwargs.get("rounding_mode")
    ):
        return node.meta["val"].dtype
    return common


def _example(operand: Any) -> Any:
    """A value with an operand's type and rank."""
    value = operand.meta.get("val") if isinstance(operand, fx.Node) else operand
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return {torch.SymInt: 1, torch.SymFloat: 1.0, torch.SymBool: True}[type(value)]
    # The rank matters: a tensor of rank 0 does not promote the type of one with axes.
    return torch.empty([1] * value.dim(), dtype=value.dtype) if isinstance(value, Tensor) else value


def _dtype(operand: Any) -> torch.dtype | None:
    value = operand.meta.get("val") if isinstance(operand, fx.Node) else None
    return value.dtype if isinstance(value, Tensor) else None
