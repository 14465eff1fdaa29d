"""Replace complex values by pairs of real ones, and Fourier transforms of fixed length by matmuls: TVM has no complex types.

All operators with complex operands or results are replaced. PyTorch computes values that depend on parameters only, as
rotations of position embeddings and filters.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from tvmake.errors import InputError
from tvmake.frontend.lowering.complex_arithmetic import ComplexArithmetic, Pair
from tvmake.frontend.lowering.fourier import MAX_LENGTH, FourierStep, Kind, fourier_steps
from tvmake.frontend.lowering.tables import merge_tables
from tvmake.frontend.one_thread import one_thread
from tvmake.frontend.torch.constants import add_constant, constant_values, evaluate, input_dependent_nodes
from tvmake.frontend.torch.operators.complex import complex_functions

aten = torch.ops.aten

Value = Any
"""A node, or a pair of them for a complex value."""

REAL_OPERATORS = {
    "add": aten.add.Tensor, "atan2": aten.atan2.default, "less": aten.lt.Scalar, "log": aten.log.default, "max": aten.clamp_min.default,
    "multiply": aten.mul.Tensor, "negate": aten.neg.default, "select": aten.where.self, "sqrt": aten.sqrt.default,
    "subtract": aten.sub.Tensor,
}  # fmt: skip
"""Operators by their names in complex arithmetic. The second operand of ``less`` and ``max`` is a number."""

PARTWISE = {
    "view", "_unsafe_view", "reshape", "permute", "transpose", "t", "unsqueeze", "squeeze", "slice", "select", "expand", "clone", "alias",
    "detach", "lift_fresh_copy", "contiguous", "cat", "stack", "index", "index_select", "gather", "neg", "roll", "flip", "sum", "mean", "cumsum",
    "repeat", "unfold", "split", "split_with_sizes", "unbind", "getitem", "constant_pad_nd", "where", "diagonal", "tril", "triu",
    "slice_scatter", "select_scatter", "index_put", "copy",
}  # fmt: skip
"""Operators that apply to the two parts separately."""


def replace_complex_numbers(where: str, program: ExportedProgram) -> None:
    """Replace complex tensors in a program's graph, in place.

    Raises:
        InputError: an operator on complex numbers has no form in real ones, or a transform is too long.
    """
    if not any(_is_complex(node) for node in program.graph.nodes):
        return
    writer = ComplexGraphWriter(program, where)
    values, dependent = constant_values(program), input_dependent_nodes(program)
    missing: Counter[str] = Counter()
    for node in list(program.graph.nodes):
        is_complex = _is_complex(node)
        if node.op == "output" or not (is_complex or any(operand in writer.pairs for operand in node.all_input_nodes)):
            continue
        if node not in dependent:
            if is_complex and isinstance(node.meta["val"], Tensor):
                with torch.no_grad(), one_thread():
                    value = evaluate(node, values)
                writer.pairs[node] = Pair(writer.constant(value.real), writer.constant(value.imag))
            elif isinstance(node.meta["val"], Tensor):
                with torch.no_grad(), one_thread(), program.graph.inserting_before(node):
                    value = evaluate(node, values)
                    folded = writer(aten.clone.default, writer.constant(value))
                    values[folded] = value  # further constants may depend on it
                    node.replace_all_uses_with(folded)
            continue
        if any(_is_complex(operand) and operand not in writer.pairs for operand in node.all_input_nodes):
            continue  # depends on an unsupported operator
        with program.graph.inserting_before(node):
            replacement = writer.replacement(node)
        if replacement is None:
            missing[str(node.target)] += 1
        elif isinstance(replacement, tuple):
            writer.pairs[node] = Pair(*replacement)
        else:
            node.replace_all_uses_with(replacement)
    if missing:
        listing = ", ".join(f"{operator} ({count}×)" for operator, count in sorted(missing.items()))
        raise InputError(where, f"computes with complex numbers in {listing}", "write those parts with real numbers")
    _erase_unused(program, set(writer.pairs))


def _erase_unused(program: ExportedProgram, replaced: set[fx.Node]) -> None:
    unused = set()
    for node in reversed(program.graph.nodes):
        if node.users or node.op == "output":
            continue
        if node.op == "placeholder" and node in replaced:
            unused.add(node.name)
            program.graph.erase_node(node)
        elif node.op == "call_function":
            program.graph.erase_node(node)
    specs = program.graph_signature.input_specs
    for spec in specs:
        if spec.arg.name in unused:
            program.constants.pop(spec.target, None)  # TVM's importer mistakes an unused one for another
    specs[:] = [spec for spec in specs if spec.arg.name not in unused]
    program.graph_module.recompile()


def _is_complex(node: fx.Node) -> bool:
    leaves = pytree.tree_leaves(node.meta.get("val"))
    return any(isinstance(value, Tensor) and value.is_complex() for value in leaves)


class ComplexGraphWriter(ComplexArithmetic):
    """Adds nodes to the graph, with the fake tensors of their values."""

    def __init__(self, program: ExportedProgram, where: str):
        self.program = program
        self.where = where
        self.pairs: dict[fx.Node, Pair] = {}
        self.fake = next(
            value.fake_mode
            for node in program.graph.nodes
            for value in pytree.tree_leaves(node.meta.get("val"))
            if hasattr(value, "fake_mode")
        )
        self.constants = 0

    def __call__(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        node = self.program.graph.call_function(target, args, kwargs)
        with self.fake:
            node.meta["val"] = target(*fx.node.map_arg(args, lambda operand: operand.meta["val"]), **kwargs)
        return node

    def write(self, operator: str, *operands: Any) -> fx.Node:
        """Add a node of an operator on real values."""
        return self(REAL_OPERATORS[operator], *operands)

    def constant(self, value: Tensor) -> fx.Node:
        value = value.detach().contiguous().clone()
        self.constants += 1
        example = self.fake.from_tensor(value)
        return add_constant(self.program, f"tvmake_part_{self.constants}", value, example)

    def parts(self, operand: Any) -> Pair | None:
        return self.pairs.get(operand) if isinstance(operand, fx.Node) else None

    def replacement(self, node: fx.Node) -> Value | None:
        """The replacement of a node's value; None if the operator is not supported."""
        target = node.target
        name = getattr(getattr(target, "overloadpacket", target), "__name__", "").partition(".")[0]
        if name in RULES:
            return RULES[name](self, node)
        if name not in PARTWISE or not _is_complex(node):
            return None
        halves = []
        for half in (0, 1):

            def part(operand: fx.Node, half: int = half) -> fx.Node:
                pair = self.parts(operand)
                if pair is not None:
                    return pair[half]
                is_value = isinstance(operand.meta["val"], Tensor) and operand.meta["val"].is_floating_point()
                return self(aten.zeros_like.default, operand) if is_value and half else operand

            args, kwargs = fx.node.map_arg((node.args, node.kwargs), part)
            halves.append(self(target, *args, **kwargs))
        return halves[0], halves[1]

    def product(self, left: Any, right: Any) -> Value:
        """The product of two values, each real or complex."""
        first, second = self._pair_or_real(left), self._pair_or_real(right)
        if not isinstance(first, tuple):
            first, second = second, first
        assert isinstance(first, tuple)
        if not isinstance(second, tuple):
            return self(aten.mul.Tensor, first[0], second), self(aten.mul.Tensor, first[1], second)
        return self.multiply(Pair(*first), Pair(*second))

    def _pair_or_real(self, operand: Any) -> Any:
        if isinstance(operand, complex):
            return (operand.real, operand.imag)
        return self.parts(operand) or operand

    def matmul(self, node: fx.Node) -> Value:
        left, right = (self.parts(operand) for operand in node.args[:2])
        if left and right:
            return self.bilinear(lambda first, second: self(node.target, first, second), left, right)
        if left:
            return self(node.target, left[0], node.args[1]), self(node.target, left[1], node.args[1])
        assert right
        return self(node.target, node.args[0], right[0]), self(node.target, node.args[0], right[1])

    def sum(self, node: fx.Node) -> Value:
        left, right = (self._pair_or_real(operand) for operand in node.args[:2])
        alpha = node.kwargs.get("alpha", 1)
        if alpha != 1:
            scaled = [self(aten.mul.Tensor, part, alpha) for part in (right if isinstance(right, tuple) else (right,))]
            right = (scaled[0], scaled[1]) if len(scaled) == 2 else scaled[0]
        if isinstance(left, tuple) and isinstance(right, tuple):
            return self(node.target, left[0], right[0]), self(node.target, left[1], right[1])
        if isinstance(left, tuple):
            like = self(node.target, left[0], right)
            return like, self(aten.add.Tensor, left[1], self(aten.zeros_like.default, like))
        assert isinstance(right, tuple)
        like = self(node.target, left, right[0])
        zeros = self(aten.zeros_like.default, like)
        return like, self(node.target, zeros, right[1])

    def inverse(self, pair: Any) -> Pair:
        squared = self.squared_magnitude(pair)
        imaginary = self(aten.neg.default, self(aten.div.Tensor, pair[1], squared))
        return Pair(self(aten.div.Tensor, pair[0], squared), imaginary)

    def quotient(self, node: fx.Node) -> Value:
        left, right = (self._pair_or_real(operand) for operand in node.args[:2])
        if not isinstance(right, tuple):
            return self(aten.div.Tensor, left[0], right), self(aten.div.Tensor, left[1], right)
        inverse = self.inverse(right)
        if not isinstance(left, tuple):
            return self(aten.mul.Tensor, inverse[0], left), self(aten.mul.Tensor, inverse[1], left)
        return self.multiply(Pair(*left), inverse)

    def transform(self, value: Value, axes: Sequence[int], normalization: int, kind: Kind, size: int = 0) -> Value:
        """A Fourier transform along axes; ``size`` is the length of a real result along the last axis."""
        first = value[0] if isinstance(value, tuple) else value
        rank = first.meta["val"].dim()
        axes = [axis % rank for axis in axes]
        extents = first.meta["val"].shape
        lengths = [size if kind == "from_half" and axis == axes[-1] else extents[axis] for axis in axes]
        for length in lengths:
            if not isinstance(length, int):
                raise InputError(self.where, "a Fourier transform of dynamic length", "give the inputs fixed shapes")
            if length > MAX_LENGTH:
                problem = f"a Fourier transform of {length} elements; up to {MAX_LENGTH} are supported"
                raise InputError(self.where, problem, "transform shorter frames, or remove it from the network")
        count = math.prod(lengths)
        scale = {0: 1.0, 1: 1 / math.sqrt(count), 2: 1 / count}[normalization]
        for step in fourier_steps(kind, axes, lengths, lambda number, _: scale if number == 0 else 1.0):
            value = self._transform_to_real(value, step) if step.gives_real else self._transform_along(value, step)
        return value

    def _matrix(self, values: np.ndarray, like: fx.Node) -> fx.Node:
        return self.constant(torch.from_numpy(values).to(like.meta["val"].dtype))

    def _matmul_along(self, data: fx.Node, axis: int, matrix: fx.Node) -> fx.Node:
        rank = data.meta["val"].dim()
        order = [index for index in range(rank) if index != axis] + [axis]
        is_last = axis == rank - 1
        result = self(aten.matmul.default, data if is_last else self(aten.permute.default, data, order), matrix)
        return result if is_last else self(aten.permute.default, result, [order.index(index) for index in range(rank)])

    def _transform_along(self, value: Value, step: FourierStep) -> Pair:
        first = value[0] if isinstance(value, tuple) else value
        matrices = self._matrix(step.cosine, first), self._matrix(step.sine, first)
        real, imaginary = (self._matmul_along(first, step.axis, matrix) for matrix in matrices)
        if isinstance(value, tuple):
            real = self(aten.sub.Tensor, real, self._matmul_along(value[1], step.axis, matrices[1]))
            imaginary = self(aten.add.Tensor, imaginary, self._matmul_along(value[1], step.axis, matrices[0]))
        return Pair(real, imaginary)

    def _transform_to_real(self, value: Any, step: FourierStep) -> fx.Node:
        real = self._matmul_along(value[0], step.axis, self._matrix(step.cosine, value[0]))
        imaginary = self._matmul_along(value[1], step.axis, self._matrix(step.sine, value[0]))
        return self(aten.sub.Tensor, real, imaginary)


Rule = Callable[[ComplexGraphWriter, fx.Node], Value | None]


def _complex_transform(write: ComplexGraphWriter, node: fx.Node) -> Value | None:
    data, axes, normalization, forward = node.args
    return write.transform(write.pairs[data], axes, normalization, "forward" if forward else "inverse")


def _real_transform(write: ComplexGraphWriter, node: fx.Node) -> Value | None:
    data, axes, normalization, onesided = node.args
    return write.transform(data, axes, normalization, "to_half" if onesided else "forward")


def _transform_to_real(write: ComplexGraphWriter, node: fx.Node) -> Value | None:
    data, axes, normalization, size = node.args
    return write.transform(write.pairs[data], axes, normalization, "from_half", size)


def _conjugate(write: ComplexGraphWriter, node: fx.Node) -> Value | None:
    real, imaginary = write.pairs[node.args[0]]
    return real, write(aten.neg.default, imaginary)


def _magnitude(write: ComplexGraphWriter, node: fx.Node) -> Value | None:
    return write.magnitude(write.pairs[node.args[0]])


def _angle(write: ComplexGraphWriter, node: fx.Node) -> Value | None:
    pair = write.parts(node.args[0])
    return write(aten.atan2.default, pair[1], pair[0]) if pair else None


def _as_real(write: ComplexGraphWriter, node: fx.Node) -> Value | None:
    return write(aten.cat.default, [write(aten.unsqueeze.default, part, -1) for part in write.pairs[node.args[0]]], -1)


def _as_complex(write: ComplexGraphWriter, node: fx.Node) -> Value | None:
    return write(aten.select.int, node.args[0], -1, 0), write(aten.select.int, node.args[0], -1, 1)


def _polar(write: ComplexGraphWriter, node: fx.Node) -> Value | None:
    magnitude, angle = node.args
    unit = write(aten.cos.default, angle), write(aten.sin.default, angle)
    return write(aten.mul.Tensor, magnitude, unit[0]), write(aten.mul.Tensor, magnitude, unit[1])


def _exponential(write: ComplexGraphWriter, node: fx.Node) -> Value | None:
    real, imaginary = write.pairs[node.args[0]]
    magnitude = write(aten.exp.default, real)
    unit = write(aten.cos.default, imaginary), write(aten.sin.default, imaginary)
    return write(aten.mul.Tensor, magnitude, unit[0]), write(aten.mul.Tensor, magnitude, unit[1])


def _convert_dtype(write: ComplexGraphWriter, node: fx.Node) -> Value | None:
    pair = write.parts(node.args[0])
    if not _is_complex(node) or pair:
        return pair if _is_complex(node) else None
    dtype = node.meta["val"].real.dtype
    real = write(aten._to_copy.default, node.args[0], dtype=dtype)
    return real, write(aten.zeros_like.default, real)


def _fill(write: ComplexGraphWriter, node: fx.Node) -> Value | None:
    like, number = node.args[:2]
    if not _is_complex(node):
        return write(node.target, write.pairs[like][0], number, **node.kwargs)
    pair, settings = write.parts(like), {**node.kwargs, "dtype": node.meta["val"].real.dtype}
    parts = (complex(number).real, complex(number).imag)
    real, imaginary = (write(node.target, pair[0] if pair else like, part, **settings) for part in parts)
    return real, imaginary


def _power(write: ComplexGraphWriter, node: fx.Node) -> Value | None:
    return write.product(node.args[0], node.args[0]) if node.args[1] == 2 else None


RULES: Mapping[str, Rule] = merge_tables(
    complex_functions.RULES,
    {
        "_fft_c2c": _complex_transform,
        "_fft_r2c": _real_transform,
        "_fft_c2r": _transform_to_real,
        "_conj": _conjugate,
        "conj": _conjugate,
        "_conj_physical": _conjugate,
        "abs": _magnitude,
        "angle": _angle,
        "view_as_real": _as_real,
        "view_as_complex": _as_complex,
        "complex": lambda _, node: (node.args[0], node.args[1]),
        "real": lambda write, node: write.pairs[node.args[0]][0],
        "imag": lambda write, node: write.pairs[node.args[0]][1],
        "polar": _polar,
        "exp": _exponential,
        "_to_copy": _convert_dtype,
        "full_like": _fill,
        "pow": _power,
        "mul": lambda write, node: write.product(*node.args[:2]),
        "add": lambda write, node: write.sum(node),
        "sub": lambda write, node: write.sum(node),
        "reciprocal": lambda write, node: write.inverse(write.pairs[node.args[0]]),
        "div": lambda write, node: write.quotient(node),
        "mm": lambda write, node: write.matmul(node),
        "bmm": lambda write, node: write.matmul(node),
        "matmul": lambda write, node: write.matmul(node),
    },
)
"""Functions that return the replacement of an operator's value, by its name."""
