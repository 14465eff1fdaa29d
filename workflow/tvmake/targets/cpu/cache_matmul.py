"""Matmuls with the rows of a decoder's cache, read from the buffer that has them.

Both products of attention have static strides, and a length that may be dynamic: queries by keys is a dot product with each row, and weights by
values is a sum of rows. Copying, transposing and repeating the rows for a general matmul takes several times as long as the
products of a few new tokens.
"""

from collections.abc import Sequence
from typing import Any

import tvm
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvmake.ir.expressions import dtype_name, same_extents
from tvmake.ir.views import View

from tvm import tirx  # isort: skip

LANES = 16
"""Values in a vector: one of AVX-512, or several of other processors."""

MOST_VECTORS = 4
"""Of partial sums at once: they stay in registers."""

MOST_ROWS = 16
"""Of the left operand, if their number is fixed: for more, a tiled matmul of a copy takes less time."""

PARALLEL_WORK = 1 << 18
"""Multiplications, with a full buffer, from which the heads are divided among threads."""

ATTRIBUTES = {"tirx.is_scheduled": True, "op_pattern": 8, "tirx.noalias": True}


def cache_matmul(left: Any, view: View, buffer: Any, product: Any) -> "tvm.tirx.PrimFunc | None":
    """The kernel, for operands and a result of these types; None if general ones take it.

    Args:
        view: the right operand, as a view of the buffer.
    """
    if {dtype_name(kind) for kind in (left, buffer, product)} != {"float32"} or view.dtype != "float32":
        return None
    shapes = [list(kind.shape.values) for kind in (left, product)]
    rank = len(view.shape)
    if rank < 2 or any(len(shape) != rank for shape in shapes):
        return None
    if not same_extents(shapes[0][:-2], view.shape[:-2]):
        return None
    rows = shapes[0][-2]
    if not all(isinstance(extent, tirx.IntImm) for extent in view.shape[:-2]) or (
        isinstance(rows, tirx.IntImm) and int(rows) > MOST_ROWS
    ):
        return None
    variables = view.variables()
    indices = view.simple_indices(variables)
    inner = next((axis for axis in (rank - 2, rank - 1) if indices[-1].same_as(variables[axis])), None)
    if inner is None or _uses(indices[:-1], variables[inner]):
        return None
    width = view.shape[inner]
    if not isinstance(width, tirx.IntImm) or int(width) % LANES:
        return None
    length = rank - 1 if inner == rank - 2 else rank - 2
    if sum(index.same_as(variables[length]) for index in indices) != 1 or not _is_apart(indices, variables[length]):
        return None
    return _Kernel(left, view, buffer, product, inner == rank - 2).write()


def _uses(indices: Sequence[Any], variable: Any) -> bool:
    return any(used.same_as(variable) for index in indices for used in tirx.analysis.undefined_vars(index))


def _is_apart(indices: Sequence[Any], variable: Any) -> bool:
    return not _uses([index for index in indices if not index.same_as(variable)], variable)


class _Kernel:
    def __init__(self, left: Any, view: View, buffer: Any, product: Any, is_by_keys: bool):
        self.view, self.is_by_keys = view, is_by_keys
        self.heads = [int(extent) for extent in view.shape[:-2]]
        self.width = int(view.shape[-2] if is_by_keys else view.shape[-1])
        rows = left.shape.values[-2]
        self.rows = rows if isinstance(rows, tirx.IntImm) else tirx.Var("t", "int64")
        length = view.shape[-1] if is_by_keys else view.shape[-2]
        self.length = length if isinstance(length, tirx.IntImm) else tirx.Var("n", "int64")
        self.full = [
            size if isinstance(size, tirx.IntImm) else tirx.Var(f"m{axis}", "int64")
            for axis, size in enumerate(buffer.shape.values)
        ]

    def write(self) -> "tvm.tirx.PrimFunc":
        heads = 1
        for extent in self.heads:
            heads *= extent
        sizes = [size for size in self.full if isinstance(size, tirx.IntImm)]
        most = max(int(size) for size in sizes)
        narrow = [*map(_int64, self.heads), self.rows]
        width = _int64(self.width)
        left = [*narrow, width if self.is_by_keys else self.length]
        right = [*narrow, self.length if self.is_by_keys else width]
        with IRBuilder() as builder:
            with T.prim_func(is_private=True, s_tir=True):
                T.func_name("cache_matmul")
                T.func_attr(ATTRIBUTES)
                self.left = IRBuilder.name("left", T.match_buffer(T.arg("left_handle", T.handle()), left, "float32"))
                self.cache = IRBuilder.name(
                    "cache", T.match_buffer(T.arg("cache_handle", T.handle()), self.full, "float32")
                )
                self.out = IRBuilder.name(
                    "product", T.match_buffer(T.arg("product_handle", T.handle()), right, "float32")
                )
                loop = T.parallel if heads > 1 and heads * most * self.width >= PARALLEL_WORK else T.serial
                with T.sblock("root"), loop(0, _int64(heads)) as head, T.sblock("head"):
                    self.sums = IRBuilder.name(
                        "sums", T.sblock_alloc_buffer([LANES * MOST_VECTORS], "float32", scope="local")
                    )
                    with T.serial(0, self.rows) as row:
                        (self._by_keys if self.is_by_keys else self._by_values)(self._head(head), row)
            return builder.get()

    def _head(self, index: Any) -> list[Any]:
        indices: list[Any] = []
        divided = [axis for axis, extent in enumerate(self.heads) if extent > 1]
        for axis in reversed(range(len(self.heads))):
            extent = _int64(self.heads[axis])
            is_first = axis == divided[0] if divided else True
            remainder = index if is_first else tirx.floormod(index, extent)
            indices.insert(0, remainder if self.heads[axis] > 1 else _int64(0))
            index = tirx.floordiv(index, extent)
        return indices

    def _vector(self, head: list[Any], position: Any, start: Any, lanes: int) -> Any:
        """Elements of a row of the buffer."""
        order = [start, position] if self.is_by_keys else [position, start]
        *outer, first = self.view.index([*head, *order])
        return self.view.apply_steps(self.cache[(*outer, tirx.Ramp(first, _int64(1), lanes))])

    def _by_keys(self, head: list[Any], row: Any) -> None:
        """Each element is the dot product of a row of ``left`` and a row of the buffer."""
        vectors = self.width // LANES
        count = min(vectors, MOST_VECTORS)
        with T.serial(0, self.length) as position:
            for vector in range(vectors):
                start = _int64(vector * LANES)
                at = _ramp(vector % count * LANES, LANES)
                factor = self.left[(*head, row, tirx.Ramp(start, _int64(1), LANES))]
                value = factor * self._vector(head, position, start, LANES)
                T.buffer_store(self.sums, value if vector < count else self.sums[at] + value, [at])
            for vector in range(1, count):
                T.buffer_store(
                    self.sums, self.sums[_ramp(0, LANES)] + self.sums[_ramp(vector * LANES, LANES)], [_ramp(0, LANES)]
                )
            lanes = LANES
            while (lanes := lanes // 2) > 1:
                T.buffer_store(
                    self.sums, self.sums[_ramp(0, lanes)] + self.sums[_ramp(lanes, lanes)], [_ramp(0, lanes)]
                )
            T.buffer_store(self.out, self.sums[0] + self.sums[1], [*head, row, position])

    def _by_values(self, head: list[Any], row: Any) -> None:
        """A row of the result is the sum of the buffer's rows, multiplied by the elements of ``left``."""
        block = LANES * MOST_VECTORS
        for begin in range(0, self.width, block):
            starts = range(begin, min(begin + block, self.width), LANES)
            for start in starts:
                T.buffer_store(
                    self.sums, tirx.Broadcast(tirx.const(0.0, "float32"), LANES), [_ramp(start - begin, LANES)]
                )
            with T.serial(0, self.length) as position:
                factor = tirx.Broadcast(self.left[(*head, row, position)], LANES)
                for start in starts:
                    at = _ramp(start - begin, LANES)
                    value = self._vector(head, position, _int64(start), LANES)
                    T.buffer_store(self.sums, self.sums[at] + factor * value, [at])
            for start in starts:
                at = tirx.Ramp(_int64(start), _int64(1), LANES)
                T.buffer_store(self.out, self.sums[_ramp(start - begin, LANES)], [*head, row, at])


def _int64(number: int) -> Any:
    return tirx.IntImm("int64", number)


def _ramp(start: int, lanes: int) -> Any:
    return tirx.Ramp(start, 1, lanes)
