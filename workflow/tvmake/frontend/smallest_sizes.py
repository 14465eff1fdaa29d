"""Find the smallest sizes of dynamic dimensions with which a network computes something.

A signal that is shorter than a frame has a negative number of frames, and an image that is smaller than a kernel window has no
result. The smallest sizes without such tensors become bounds of the dimensions, which are checked before a network runs, and which
samples have that no other size is chosen for.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tvmake.artifact.signature import Bounds
from tvmake.errors import InputError
from tvmake.frontend.imported import ImportedModel
from tvmake.ir.bounds import bounds_of, with_bounds
from tvmake.ir.size_expressions import evaluate_size, size_text

from tvm import relax, tirx  # isort: skip

LARGEST = 2**24
"""The largest size that is tried."""

BEYOND = (1, 2, 3, 10, 97, 1000, 12345)
"""Distances beyond a smallest size at which an expression must be large enough too."""

WINDOWED = ("relax.nn.conv", "relax.nn.max_pool", "relax.nn.avg_pool")
"""Operators whose results are empty if the input is smaller than the kernel window."""


def bound_sizes(imported: ImportedModel, where: str) -> ImportedModel:
    """The network with the smallest sizes of its dynamic dimensions as bounds.

    Args:
        where: the source, for messages.

    Raises:
        InputError: no size that the file allows is large enough, or a fixed size is too small.
    """
    _check_fixed_sizes(imported.module["main"], where)
    least = _smallest_sizes(imported.module["main"])
    bounds = bounds_of(imported.module)
    narrowed: dict[str, Bounds] = dict(bounds)
    for name, (size, text) in least.items():
        known, most = bounds.get(name, (0, None))
        if most is not None and most < size:
            problem = f"{text} is too small for every size of {name} that the file allows, up to {most}"
            raise InputError(where, problem, "export the network with other sizes")
        if size > known:
            narrowed[name] = size, most
    if narrowed == bounds:
        return imported
    signature = imported.signature.model_copy(update={"bounds": narrowed})
    return replace(imported, module=with_bounds(imported.module, narrowed), signature=signature)


def _check_fixed_sizes(main: "relax.Function", where: str) -> None:
    """Refuse a network that has tensors smaller than an empty one."""
    sizes: list[int] = []

    def note(expression: Any) -> None:
        kind = getattr(expression, "ty", None)
        for part in kind.fields if isinstance(kind, relax.TupleType) else [kind]:
            shape = part.shape if isinstance(part, relax.TensorType) else None
            if isinstance(shape, relax.ShapeExpr):
                sizes.extend(int(size) for size in shape.values if isinstance(size, tirx.IntImm))

    relax.analysis.post_order_visit(main, note)
    if min(sizes, default=0) < 0:
        problem = "an input is smaller than a kernel window of the network"
        raise InputError(where, problem, "give the inputs other shapes")


def _smallest_sizes(main: "relax.Function") -> dict[str, tuple[int, str]]:
    """Smallest sizes by dimension, each with the expression that needs it, if one needs more than 0."""
    names = {str(dimension.name) for dimension in relax.analysis.defined_symbolic_vars(main)}
    smallest: dict[str, tuple[int, str]] = {}
    for (text, least), size in _derived_sizes(main).items():
        dimensions = {str(dimension.name) for dimension in tirx.analysis.undefined_vars(size)}
        if len(dimensions) != 1 or not dimensions <= names:
            continue
        (name,) = dimensions
        found = _smallest_size(size, name, least)
        if found is not None and found > smallest.get(name, (0, ""))[0]:
            smallest[name] = found, text
    return smallest


def _derived_sizes(main: "relax.Function") -> Mapping[tuple[str, int], Any]:
    """Distinct sizes of tensors that are computed from dimensions, by their text and the least that they may be."""
    sizes: dict[tuple[str, int], Any] = {}

    def note(expression: Any) -> None:
        operator = expression.op if isinstance(expression, relax.Call) else None
        is_windowed = str(getattr(operator, "name", "")).startswith(WINDOWED)
        for size in _dynamic_sizes(getattr(expression, "ty", None)):
            sizes.setdefault((size_text(size), int(is_windowed)), size)
        if operator is not None and str(getattr(operator, "name", "")) == "relax.take":
            size = _indexed_size(expression)
            if size is not None:
                sizes.setdefault((size_text(size), 1), size)

    relax.analysis.post_order_visit(main, note)
    return sizes


def _indexed_size(take: Any) -> Any:
    """The dynamic size of the axis that elements are taken from; None if it is fixed, or if there may be no index."""
    source, indices = (argument.ty.shape for argument in take.args[:2])
    is_known = isinstance(source, relax.ShapeExpr) and isinstance(indices, relax.ShapeExpr)
    if not is_known or not all(isinstance(extent, tirx.IntImm) and int(extent) > 0 for extent in indices.values):
        return None
    size = source.values[0 if take.attrs.axis is None else int(take.attrs.axis)]
    return None if isinstance(size, tirx.IntImm) else size


def _dynamic_sizes(kind: Any) -> Iterator[Any]:
    """Sizes of a tensor, or of tensors in a tuple, that are neither numbers nor plain dimensions."""
    if isinstance(kind, relax.TupleType):
        for field in kind.fields:
            yield from _dynamic_sizes(field)
    elif isinstance(kind, relax.TensorType) and isinstance(kind.shape, relax.ShapeExpr):
        yield from (size for size in kind.shape.values if not isinstance(size, tirx.IntImm | tirx.Var))


def _smallest_size(size: Any, name: str, least: int) -> int | None:
    """The smallest value of a dimension with which an expression is at least a number; None if it does not grow with it."""

    def is_enough(extent: int) -> bool:
        return evaluate_size(size, {name: extent}) >= least

    try:
        low, high = -1, 1
        while not is_enough(high):
            low, high = high, 2 * high
            if high > LARGEST:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if is_enough(middle) else (middle, high)
        return high if all(is_enough(high + more) for more in BEYOND) else None
    except (ValueError, ZeroDivisionError):
        return None
