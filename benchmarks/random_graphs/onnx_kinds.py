"""The kinds of steps of ONNX networks."""

from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor

from . import onnx_images, onnx_rarer, sequences
from .images import divisors, is_float, same_shape
from .network import Kind, Options
from .numbers import _broadcasts
from .onnx_nodes import Node, drawn_axes, integers, no_options, plain, weights
from .shapes import _joins

UNARY = {
    "Relu": {}, "LeakyRelu": {"alpha": 0.2}, "Elu": {"alpha": 0.7}, "Selu": {}, "Celu": {"alpha": 0.5}, "Sigmoid": {}, "Tanh": {},
    "HardSigmoid": {"alpha": 0.3}, "HardSwish": {}, "Softplus": {}, "Softsign": {}, "Mish": {}, "ThresholdedRelu": {"alpha": 0.4},
    "Gelu": {"approximate": "tanh"}, "Erf": {}, "Abs": {}, "Neg": {}, "Floor": {}, "Ceil": {}, "Round": {}, "Sign": {}, "Sin": {},
    "Cos": {}, "Atan": {}, "Asinh": {}, "Identity": {}, "Shrink": {"lambd": 0.2, "bias": 0.1}, "GlobalAveragePool": {},
    "GlobalMaxPool": {},
}  # fmt: skip
"""Operators of one operand, with attributes."""

BINARY = ("Add", "Sub", "Mul", "Max", "Min", "Mean", "Sum")

COMPARISONS = ("Greater", "Less", "GreaterOrEqual", "LessOrEqual")

REDUCTIONS = (
    "ReduceMean",
    "ReduceSum",
    "ReduceMax",
    "ReduceMin",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
    "ReduceLogSumExp",
)


def _pad(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x) or not 2 <= x.dim() <= 5:
        return None
    low = -1 if rng.random() < 0.15 else 0
    mode = rng.choice(("constant", "constant", "reflect", "edge"))
    return {"mode": mode, "pads": tuple(rng.choice((low, 0, 0, 1, 2)) for _ in range(2 * x.dim()))}


def _slice(rng: Random, x: Tensor) -> Options | None:
    axes = [axis for axis in range(x.dim()) if x.shape[axis] > 1]
    if not axes:
        return None
    axis = rng.choice(axes)
    extent = x.shape[axis]
    if rng.random() < 0.2:
        return {"bounds": (extent, -extent - 1, axis, rng.choice((-1, -2)))}
    start = rng.randrange(extent - 1)
    end = rng.choice((extent, 10**9, rng.randint(start + 1, extent), -1))
    return {
        "bounds": (
            start - extent * (rng.random() < 0.3),
            end,
            axis - x.dim() * (rng.random() < 0.3),
            rng.choice((1, 1, 2)),
        )
    }


def _reshape(rng: Random, x: Tensor) -> Options | None:
    if not 1 <= x.dim() <= 5:
        return None
    shape: list[int] = list(x.shape)
    axis = rng.randrange(len(shape))
    if axis + 1 < len(shape) and rng.random() < 0.5:
        shape[axis : axis + 2] = [shape[axis] * shape[axis + 1]]
    else:
        factor = rng.choice(divisors(shape[axis]))
        shape[axis : axis + 1] = [factor, shape[axis] // factor]
    if axis > 0 and rng.random() < 0.3:
        shape[0] = 0
    if rng.random() < 0.4:
        shape[-1] = -1
    return {"shape": tuple(shape)}


def _recurrent(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x, 3) or x.shape[0] > 12:
        return None
    operator = rng.choice(("LSTM", "GRU", "RNN"))
    options: Options = {
        "operator": operator,
        "hidden_size": rng.choice((2, 3, 5)),
        "direction": rng.choice(("forward", "reverse", "bidirectional")),
        "taken": rng.choice((0, 0, 1)),
    }
    return {**options, "linear_before_reset": rng.choice((0, 1))} if operator == "GRU" else options


def _make_recurrent(x: Tensor, operator: str, hidden_size: int, direction: str, **options: Any) -> Node:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[operator]
    ways = 2 if direction == "bidirectional" else 1
    given = [
        weights(ways, gates * hidden_size, x.shape[2]),
        weights(ways, gates * hidden_size, hidden_size),
        weights(ways, 2 * gates * hidden_size),
    ]
    return Node(operator, [0, *given], hidden_size=hidden_size, direction=direction, outputs=2, **options)


def _gemm(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x, 2):
        return None
    numbers = {name: rng.choice((0, 1)) for name in ("transA", "transB")}
    return {"out": rng.choice((1, 3, 4, 8)), "alpha": rng.choice((1.0, 0.5)), "beta": rng.choice((1.0, 2.0)), **numbers}


def _make_gemm(x: Tensor, out: int, **options: Any) -> Node:
    depth = x.shape[0 if options["transA"] else 1]
    return Node("Gemm", [0, weights(*((out, depth) if options["transB"] else (depth, out))), weights(out)], **options)


def _gather(rng: Random, x: Tensor) -> Options | None:
    if not x.dim():
        return None
    axis = rng.randrange(x.dim())
    count = rng.choice((0, 1, 3, 4))
    return {
        "axis": axis,
        "indices": tuple(rng.randrange(-x.shape[axis], x.shape[axis]) for _ in range(count or 1)),
        "flat": not count,
    }


def _make_gather(x: Tensor, axis: int, indices: tuple[int, ...], flat: bool) -> Node:
    return Node("Gather", [0, np.array(indices[0], np.int64) if flat else integers(*indices)], axis=axis)


def _split(rng: Random, x: Tensor) -> Options | None:
    axes = [axis for axis in range(x.dim()) if x.shape[axis] > 1]
    if not axes:
        return None
    axis = rng.choice(axes)
    first = rng.randrange(1, x.shape[axis])
    return {"axis": axis, "sizes": (first, x.shape[axis] - first), "taken": rng.randrange(2)}


def _blocks(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x, 4):
        return None
    if x.shape[1] % 4 == 0 and rng.random() < 0.6:
        return {"operator": "DepthToSpace", "blocksize": 2, "mode": rng.choice(("DCR", "CRD"))}
    return {"operator": "SpaceToDepth", "blocksize": 2} if x.shape[2] % 2 == x.shape[3] % 2 == 0 else None


def _axis(rng: Random, x: Tensor) -> Options | None:
    return {"axis": rng.randrange(-x.dim(), x.dim())} if is_float(x) and x.dim() else None


def _with_operator(draw: Any, *operators: str) -> Any:
    def both(rng: Random, x: Tensor) -> Options | None:
        options = draw(rng, x)
        return None if options is None else {"operator": rng.choice(operators), **options}

    return both


def _axes(rng: Random, x: Tensor) -> Options | None:
    return {"axes": drawn_axes(rng, x), "keepdims": rng.choice((0, 1))} if is_float(x) and x.dim() else None


def _bias(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x) or not 1 <= x.dim() <= 5:
        return None
    shape = [extent if rng.random() < 0.5 else 1 for extent in x.shape]
    operator = rng.choice(("Add", "Mul", "Sub", "Div", "Pow", "PRelu"))
    return {"operator": operator, "shape": tuple(shape[rng.randrange(x.dim()) :])}


def _make_bias(x: Tensor, operator: str, shape: tuple[int, ...]) -> Node:
    if operator == "Pow":
        return Node(operator, [0, np.array(2, np.float32)])
    return Node(operator, [0, np.abs(weights(*shape)) + np.float32(0.5)])


KINDS: dict[str, Kind] = {
    **onnx_images.KINDS,
    **onnx_rarer.KINDS,
    **{
        name: Kind(no_options, lambda x, name=name, attributes=attributes: Node(name, **attributes), weight=0.25)
        for name, attributes in UNARY.items()
    },
    **{name: Kind(no_options, lambda x, y, name=name: Node(name), _broadcasts, weight=0.5) for name in BINARY},
    "Pad": Kind(_pad, lambda x, mode, pads: Node("Pad", [0, integers(*pads)], mode=mode), weight=1),
    "Slice": Kind(_slice, lambda x, bounds: Node("Slice", [0, *(integers(bound) for bound in bounds)]), weight=1.2),
    "Reshape": Kind(_reshape, lambda x, shape: Node("Reshape", [0, integers(*shape)]), weight=1.5),
    "Flatten": Kind(
        lambda rng, x: {"axis": rng.randint(-x.dim(), x.dim())} if is_float(x) and x.dim() else None,
        lambda x, axis: Node("Flatten", axis=axis),
        weight=0.6,
    ),
    "Transpose": Kind(
        lambda rng, x: {"perm": rng.sample(range(x.dim()), x.dim())} if x.dim() > 1 else None,
        lambda x, perm: Node("Transpose", perm=perm),
        weight=1.2,
    ),
    "Squeeze": Kind(
        lambda rng, x: {} if 1 in x.shape and x.numel() > 1 else None, lambda x: Node("Squeeze"), weight=0.4
    ),
    "Unsqueeze": Kind(
        lambda rng, x: {"axes": rng.choice(((0,), (-1,), (0, -1), (1,)))} if 0 < x.dim() < 4 else None,
        lambda x, axes: Node("Unsqueeze", [0, integers(*axes)]),
        weight=0.6,
    ),
    "Gather": Kind(_gather, _make_gather, weight=0.8),
    "Split": Kind(
        _split,
        lambda x, axis, sizes, taken: Node("Split", [0, integers(*sizes)], outputs=2, taken=taken, axis=axis),
        weight=1,
    ),
    "Tile": Kind(
        lambda rng, x: {"repeats": tuple(rng.choice((1, 1, 2)) for _ in x.shape)} if 0 < x.dim() < 5 else None,
        lambda x, repeats: Node("Tile", [0, integers(*repeats)]),
        weight=0.3,
    ),
    "Expand": Kind(
        lambda rng, x: (
            {"shape": tuple(rng.choice((2, 3)) if extent == 1 else rng.choice((1, extent)) for extent in x.shape)}
            if 1 in x.shape
            else None
        ),
        lambda x, shape: Node("Expand", [0, integers(*shape)]),
        weight=0.5,
    ),
    "blocks": Kind(_blocks, plain, weight=1),
    "Concat": Kind(
        lambda rng, x: {"choice": rng.randrange(12)},
        lambda x, *others, choice: Node("Concat", axis=_unequal_axis(x, others, choice)),
        _joins,
        partners=2,
        weight=1.5,
    ),
    "reduction": Kind(
        _with_operator(_axes, *REDUCTIONS),
        lambda x, operator, axes, keepdims: Node(operator, [0, integers(*axes)], keepdims=keepdims),
        weight=1.5,
    ),
    "softmax": Kind(_with_operator(_axis, "Softmax", "Softmax", "LogSoftmax", "Hardmax"), plain, weight=1),
    "LpNormalization": Kind(
        lambda rng, x: options if (options := _axis(rng, x)) and x.shape[options["axis"]] > 1 else None,
        lambda x, axis: Node("LpNormalization", axis=axis, p=2),
        weight=0.3,
    ),
    "argument": Kind(
        lambda rng, x: (
            {"operator": rng.choice(("ArgMax", "ArgMin")), **options, "keepdims": rng.choice((0, 1))}
            if (options := _axis(rng, x))
            else None
        ),
        plain,
        weight=0.4,
    ),
    "CumSum": Kind(
        lambda rng, x: (
            {**options, "exclusive": rng.choice((0, 1)), "reverse": rng.choice((0, 1))}
            if (options := _axis(rng, x))
            else None
        ),
        lambda x, axis, **options: Node("CumSum", [0, np.array(axis, np.int64)], **options),
        weight=0.4,
    ),
    "TopK": Kind(
        lambda rng, x: (
            {**options, "largest": rng.choice((0, 1)), "taken": rng.choice((0, 0, 1))}
            if (options := _axis(rng, x)) and x.shape[options["axis"]] > 2
            else None
        ),
        lambda x, axis, largest, taken: Node(
            "TopK", [0, integers(2)], outputs=2, taken=taken, axis=axis, largest=largest
        ),
        weight=0.4,
    ),
    "Clip": Kind(
        no_options, lambda x: Node("Clip", [0, np.array(-0.5, np.float32), np.array(0.8, np.float32)]), weight=0.5
    ),
    "bias": Kind(_bias, _make_bias, weight=1.5),
    "Gemm": Kind(_gemm, _make_gemm, weight=3),
    "MatMul": Kind(no_options, lambda x, y: Node("MatMul"), sequences._matmul_suits, weight=1.5),
    "linear": Kind(
        lambda rng, x: {"out": rng.choice((1, 4, 5, 8))} if is_float(x) and x.dim() >= 2 else None,
        lambda x, out: Node("MatMul", [0, weights(x.shape[-1], out)]),
        weight=1.5,
    ),
    "recurrent": Kind(_recurrent, _make_recurrent, weight=2),
    "Trilu": Kind(
        lambda rng, x: {"upper": rng.choice((0, 1))} if is_float(x) and x.dim() >= 2 else None,
        lambda x, upper: Node("Trilu", upper=upper),
        weight=0.3,
    ),
    "compare": Kind(_with_operator(no_options, *COMPARISONS), plain, _broadcasts, weight=0.4),
    "Not": Kind(lambda rng, x: {} if x.dtype == torch.bool else None, lambda x: Node("Not"), weight=0.8),
    "Where": Kind(
        lambda rng, x: {} if x.dtype == torch.bool else None,
        lambda x, y: Node("Where", [0, 1, np.array(-0.3, np.float32)]),
        lambda x, y: is_float(y) and x.shape == y.shape,
        weight=2,
    ),
    "Cast": Kind(lambda rng, x: {} if x.dtype != torch.float32 else None, lambda x: Node("Cast", to=1), weight=2),
    "integers": Kind(
        lambda rng, x: (
            {"operator": rng.choice(("Add", "Mul", "Mod", "Div", "Max"))} if x.dtype == torch.int64 else None
        ),
        lambda x, operator: Node(operator, [0, np.array(3, np.int64)]),
        weight=1,
    ),
    "lookup": Kind(
        lambda rng, x: (
            {"features": rng.choice((4, 8))}
            if x.dtype == torch.int64 and x.numel() and x.min() >= 0 and x.max() < 50 and x.dim() < 4
            else None
        ),
        lambda x, features: Node("Gather", [weights(50, features), 0]),
        weight=3,
    ),
    "chain": Kind(no_options, lambda x, y: Node("Add"), same_shape, weight=1),
}
"""By name; operators' own names where a step is one of them."""


def _unequal_axis(x: Tensor, others: tuple[Tensor, ...], choice: int) -> int:
    unequal = {axis for y in others for axis in range(x.dim()) if x.shape[axis] != y.shape[axis]}
    return unequal.pop() if unequal else choice % x.dim()
