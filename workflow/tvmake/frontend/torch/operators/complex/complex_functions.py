"""Functions of complex values, by their parts."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

aten = torch.ops.aten

Write = Any
"""Calls operators where the graph is being changed, and knows the pairs that stand for complex values."""
Pair = tuple[fx.Node, fx.Node]


def _sign(write: Write, node: fx.Node) -> Pair:
    """The number of size 1 in the same direction; 0 for 0."""
    pair = write.pairs[node.args[0]]
    size = write.magnitude(pair)
    size = write(
        aten.add.Tensor,
        size,
        write(aten._to_copy.default, write(aten.eq.Scalar, size, 0), dtype=size.meta["val"].dtype),
    )
    return write(aten.div.Tensor, pair[0], size), write(aten.div.Tensor, pair[1], size)


def _sum_and_product(write: Write, node: fx.Node) -> Pair | None:
    """``beta · added + alpha · left @ right``, with both factors 1."""
    if any(node.kwargs.get(name, 1) != 1 for name in ("alpha", "beta")):
        return None
    target = aten.mm.default if node.target is aten.addmm.default else aten.bmm.default
    added, left, right = (write.parts(one) for one in node.args)
    if not added or not left or not right:
        return None
    product = write.bilinear(lambda first, second: write(target, first, second), left, right)
    return write(aten.add.Tensor, added[0], product[0]), write(aten.add.Tensor, added[1], product[1])


RULES: Mapping[str, Callable[[Write, fx.Node], Any]] = {
    "log": lambda write, node: write.log(write.pairs[node.args[0]]),
    "sqrt": lambda write, node: write.sqrt(write.pairs[node.args[0]]),
    "sgn": _sign,
    "addmm": _sum_and_product,
    "baddbmm": _sum_and_product,
}
"""By the operator's name: what stands for its value."""
