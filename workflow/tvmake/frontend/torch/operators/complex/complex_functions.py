"""Functions of complex values, by their parts."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

aten = torch.ops.aten

Write = Any
"""Calls operators where the graph is being changed, and knows the pairs that stand for complex values."""
Pair = tuple[fx.Node, fx.Node]


def _of_both(first: tuple[Any, Any], second: tuple[Any, Any], sign: int = 1) -> Callable[[Write, fx.Node], Pair]:
    """``f(a) · g(b) + i · h(a) · k(b)``, as the addition theorems have it."""

    def rule(write: Write, node: fx.Node) -> Pair:
        pair = write.pairs[node.args[0]]
        real, imaginary = (
            write(aten.mul.Tensor, write(along, pair[0]), write(across, pair[1])) for along, across in (first, second)
        )
        return real, imaginary if sign > 0 else write(aten.neg.default, imaginary)

    return rule


_sine = _of_both((aten.sin.default, aten.cosh.default), (aten.cos.default, aten.sinh.default))
_cosine = _of_both((aten.cos.default, aten.cosh.default), (aten.sin.default, aten.sinh.default), -1)
_hyperbolic_sine = _of_both((aten.sinh.default, aten.cos.default), (aten.cosh.default, aten.sin.default))
_hyperbolic_cosine = _of_both((aten.cosh.default, aten.cos.default), (aten.sinh.default, aten.sin.default))


def _hyperbolic_tangent(write: Write, node: fx.Node) -> Pair:
    """By the tangents of both parts, so that no part of the quotient overflows."""
    real, imaginary = write.pairs[node.args[0]]
    along, across = write(aten.tanh.default, real), write(aten.tan.default, imaginary)
    squares = [write(aten.mul.Tensor, one, one) for one in (along, across)]
    below = write(aten.add.Tensor, write(aten.mul.Tensor, *squares), 1)
    rests = [write(aten.add.Tensor, squares[1], 1), write(aten.sub.Tensor, squares[0], 1)]
    above = write(aten.mul.Tensor, along, rests[0]), write(aten.mul.Tensor, across, write(aten.neg.default, rests[1]))
    return write(aten.div.Tensor, above[0], below), write(aten.div.Tensor, above[1], below)


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
    "sin": _sine,
    "cos": _cosine,
    "sinh": _hyperbolic_sine,
    "cosh": _hyperbolic_cosine,
    "tanh": _hyperbolic_tangent,
    "sgn": _sign,
    "addmm": _sum_and_product,
    "baddbmm": _sum_and_product,
}
"""By the operator's name: what stands for its value."""
