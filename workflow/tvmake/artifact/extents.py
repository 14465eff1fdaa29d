"""Sizes of dynamic dimensions: worked out, and compared with their bounds and with each other."""

import ast
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches

from tvmake.artifact.dims import DimBounds, spell_shape
from tvmake.artifact.signature import Bounds, Signature, is_arithmetic
from tvmake.errors import InputError

_ARITHMETIC: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


def describe_bounds(bounds: Bounds) -> str:
    """``1 to 512``, ``1 or more`` or ``16``."""
    least, most = bounds
    if most is None:
        return f"{least} or more"
    return str(least) if least == most else f"{least} to {most}"


def has_size(bounds: Bounds, size: int) -> bool:
    """Whether a size is within bounds."""
    least, most = bounds
    return least <= size and (most is None or size <= most)


def unknown_dimension(where: str, name: str, known: Iterable[str], of: str = "") -> InputError:
    """The error for a dynamic dimension that a model does not have.

    Args:
        where: the beginning of the error.
        known: the dimensions that the model has.
        of: the beginning of the problem: the shape that names the dimension.
    """
    names = sorted(known)
    close = get_close_matches(name, names, 1)
    question = f"; did you mean '{close[0]}'?" if close else ""
    listing = f"it has: {', '.join(names)}" if names else "all its shapes are fixed"
    return InputError(where, f"{of}the model has no dynamic dimension '{name}'{question}", listing)


def narrow_bounds(where: str, size: int | DimBounds, declared: Bounds | None) -> Bounds:
    """The bounds of a dimension with a size or bounds in the config.

    Args:
        where: the beginning of errors.
        declared: the bounds in the model's file.

    Raises:
        InputError: the file contradicts it.
    """
    if isinstance(size, int):
        bounds: Bounds = size, size
    else:
        least, most = declared or (1, None)
        bounds = least if size.min is None else size.min, most if size.max is None else size.max
    if declared is not None:
        ends = [end for end in bounds if end is not None]
        if not all(has_size(declared, end) for end in ends) or ends != sorted(ends):
            requested = (
                describe_bounds(bounds) if isinstance(size, int) or None not in (size.min, size.max) else _spell(size)
            )
            problem = f"should be {requested}, but the network takes {describe_bounds(declared)}"
            raise InputError(where, problem, "stay within that, or export the model with other bounds")
    return bounds


def begin_empty(dims: Mapping[str, int | DimBounds], signature: Signature) -> dict[str, int | DimBounds]:
    """Sizes and bounds in which the length of a cache may be 0, unless they or the model's file have another minimum."""
    return {
        name: size.model_copy(update={"min": 0})
        if isinstance(size, DimBounds)
        and size.min is None
        and name in signature.lengths
        and name not in signature.bounds
        else size
        for name, size in dims.items()
    }


def _spell(size: DimBounds) -> str:
    return f"at most {size.max}" if size.min is None else f"at least {size.min}"


def check_extents(signature: Signature, shapes: Mapping[str, Sequence[int]]) -> None:
    """Refuse sizes of dynamic dimensions that are beyond their bounds, or differ between inputs.

    Args:
        shapes: of inputs, by their names in the source model; those with another number of axes are left to other checks.

    Raises:
        InputError: naming the dimension, its size and the inputs.
    """
    sizes: dict[str, tuple[int, str]] = {}
    sizes_given = [
        (spec, shapes[spec.name])
        for spec in signature.inputs
        if spec.name in shapes and len(shapes[spec.name]) == len(spec.shape)
    ]
    extents = [
        (extent, size, spec.name)
        for spec, shape in sizes_given
        for extent, size in zip(spec.shape, shape, strict=True)
        if isinstance(extent, str)
    ]
    for name, size, where in extents:
        known, elsewhere = sizes.setdefault(name, (size, where))
        if size != known:
            raise InputError("inputs", f"{name} is {size} in '{where}' and {known} in '{elsewhere}'", "use one size")
        if (bounds := signature.bounds.get(name)) is not None and not has_size(bounds, size):
            raise InputError("inputs", f"{name} is {size} in '{where}'; this package takes {describe_bounds(bounds)}")
    _check_shapes(signature, {name: size for name, (size, _) in sizes.items()})
    for expression, size, where in extents:
        if not is_arithmetic(expression):
            continue
        try:
            expected = evaluate_extent(expression, lambda name: sizes[name][0])
        except (KeyError, ValueError):  # a missing input, or unsupported arithmetic
            continue
        if size != expected:
            raise InputError(
                "inputs", f"{expression} is {size} in '{where}' but should be {expected} for the other inputs"
            )


def _check_shapes(signature: Signature, sizes: Mapping[str, int]) -> None:
    if not signature.shapes or any(
        all(sizes.get(name, size) == size for name, size in shape.items()) for shape in signature.shapes
    ):
        return
    names = list(dict.fromkeys(name for shape in signature.shapes for name in shape))
    given = ", ".join(f"{name}: {sizes[name]}" for name in names if name in sizes)
    taken = ", ".join(map(spell_shape, signature.shapes))
    raise InputError("inputs", f"{{{given}}} is none of this package's shapes: {taken}", "use inputs of such sizes")


def evaluate_extent(expression: str, size_of: Callable[[str], int]) -> int:
    """Evaluate a dimension that depends on others.

    Args:
        size_of: returns the size of a dimension by its name.

    Raises:
        ValueError: it is not a sum, difference, product or quotient of names and numbers.
    """

    def value(node: ast.expr) -> int:
        match node:
            case ast.Constant(value=int(number)):
                return number
            case ast.Name(id=name):
                return size_of(name)
            case ast.BinOp(left=left, op=kind, right=right) if type(kind) in _ARITHMETIC:
                return _ARITHMETIC[type(kind)](value(left), value(right))
        raise ValueError(expression)

    try:
        return value(ast.parse(expression, mode="eval").body)
    except (SyntaxError, ZeroDivisionError):
        raise ValueError(expression) from None
