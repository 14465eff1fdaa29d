"""Functions of complex values in terms of their real and imaginary parts."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

aten = torch.ops.aten

Write = Any
"""Adds operators to the graph, and stores the pairs of nodes that represent complex values."""
Pair = tuple[fx.Node, fx.Node]


def _sign(write: Write, node: fx.Node) -> Pair:
    """The number of magnitude 1 with the same angle; 0 for 0."""
    pair = write.pairs[node.args[0]]
    magnitude = write.magnitude(pair)
    magnitude = write(
        aten.add.Tensor,
        magnitude,
        write(aten._to_copy.default, write(aten.eq.Scalar, magnitude, 0), dtype=magnitude.meta["val"].dtype),
    )
    return write(aten.div.Tensor, pair[0], magnitude), write(aten.div.Tensor, pair[1], magnitude)


def _matmul_add(write: Write, node: fx.Node) -> Pair | None:
    """``beta · bias + alpha · left @ right``, with both factors 1."""
    if any(node.kwargs.get(name, 1) != 1 for name in ("alpha", "beta")):
        return None
    target = aten.mm.default if node.target is aten.addmm.default else aten.bmm.default
    bias, left, right = (write.parts(operand) for operand in node.args)
    if not bias or not left or not right:
        return None
    matmul = write.bilinear(lambda first, second: write(target, first, second), left, right)
    return write(aten.add.Tensor, bias[0], matmul[0]), write(aten.add.Tensor, bias[1], matmul[1])


RULES: Mapping[str, Callable[[Write, fx.Node], Any]] = {
    "log": lambda write, node: write.log(write.pairs[node.args[0]]),
    "sqrt": lambda write, node: write.sqrt(write.pairs[node.args[0]]),
    "sgn": _sign,
    "addmm": _matmul_add,
    "baddbmm": _matmul_add,
}
"""Functions that return the replacement of an operator's value, by its name."""
