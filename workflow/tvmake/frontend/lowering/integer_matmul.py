"""A matmul of rows that a kernel rounds to 8 bits, by their common range, and 8-bit weights; for kernels of recurrent layers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvmake.frontend.lowering.recurrent_kernel import LANES, ROWS, Recurrence, Value
from tvmake.ir.dimensions import Extent

from tvm import tirx  # isort: skip

LARGEST = 255
"""The largest 8-bit value."""

ALL_LANES = tirx.Ramp(0, 1, LANES)


def _multiply(sums: Value, rows: Value, weights: Value) -> Value:
    wide = f"int32x{LANES}"
    return sums + tirx.Cast(wide, rows) * tirx.Cast(wide, weights)


@dataclass(frozen=True)
class Dot:
    """How a kernel adds products of 8-bit values to int32 sums."""

    lanes: int = LANES
    """Number of sums."""
    group: int = 1
    """Number of adjacent values whose products are added to a sum."""
    dtype: Literal["int16", "uint8", "int8"] = "int16"
    """Element type of rounded rows: the difference to the zero point, the value itself, or its difference to 128."""
    add: Callable[[Value, Value, Value], Value] = _multiply
    """From sums, ``group`` values of a row for each sum, and as many weights, to the new sums."""
    registers: int = 8
    """Number of vectors of ``lanes`` sums that stay in registers."""

    @property
    def vectors(self) -> Sequence[Any]:
        """The lanes of each vector of sums."""
        return [tirx.Ramp(first, 1, self.lanes) for first in range(0, LANES, self.lanes)]

    @property
    def rows(self) -> int:
        """Number of rows of a tile."""
        return max(rows for rows in (1, 2, ROWS) if rows == 1 or rows * len(self.vectors) <= self.registers)

    def gates_at_once(self, rows: int) -> int:
        """Number of gates whose sums are computed in one loop."""
        return max(gates for gates in (1, 2, 4) if gates == 1 or gates * rows * len(self.vectors) <= self.registers)


NO_INSTRUCTION = Dot()


@dataclass(frozen=True)
class Rounding:
    """How rows are rounded: x is stored as the integer nearest to x / scale, plus the zero point, less an offset."""

    scale: Any
    zero_point: Any
    offset: Any
    remaining: Any
    """The stored value of 0, int32; None if it is 0."""


class Limits:
    """The smallest and the largest value of some rows, and 0."""

    def __init__(self) -> None:
        self.buffer = allocate("limits", (2, LANES), scope="local")
        self.choose = (tirx.min, tirx.max)
        for side in range(2):
            T.buffer_store(self.buffer, spread(single(0)), [side, ALL_LANES])

    def include_row(self, columns: int, read: Callable[[Any], Value]) -> None:
        """Include the values of a row, which are read by column or vector of columns."""
        for_each_column(columns, lambda column: self._include(T.bind(read(column)), isinstance(column, tirx.Ramp)))

    def _include(self, value: Value, is_vector: bool) -> None:
        lanes = ALL_LANES if is_vector else 0
        for side in range(2):
            T.buffer_store(self.buffer, self.choose[side](self.buffer[side, lanes], value), [side, lanes])

    def rounding(self, dot: Dot) -> Rounding:
        """The rounding with this range; ONNX's ``DynamicQuantizeLinear``."""
        for side in range(2):
            fold_lanes(self.buffer, [side], self.choose[side])
        low, high = T.bind(self.buffer[0, 0]), T.bind(self.buffer[1, 0])
        scale = T.bind(tirx.Select(low < high, (high - low) / float(LARGEST), single(1)))
        zero_point = T.bind(tirx.nearbyint(tirx.min(-low / scale, single(LARGEST))))
        offset = {"int16": zero_point, "uint8": single(0), "int8": single(128)}[dot.dtype]
        remaining = {"int16": None, "uint8": zero_point, "int8": zero_point - 128.0}[dot.dtype]
        integer = None if remaining is None else T.bind(tirx.Cast("int32", remaining))
        return Rounding(scale, zero_point, offset, integer)


class IntegerMatmul:
    """Rows that are rounded into a buffer, and their matmul with weights, which are arguments of a kernel."""

    def __init__(self, argument: Callable[..., Any], layer: Recurrence, columns: int, dot: Dot):
        """Declare the arguments.

        Args:
            argument: declares an argument by its name, shape and element type.
            layer: the layer.
            columns: number of values in a row, K.
            dot: the processor's instruction.
        """
        self.columns, self.dot = columns, dot
        self.groups = -(-columns // dot.group)
        directions = len(layer.directions)
        results = (directions, layer.gates, layer.padded_units)
        weights = (directions, layer.blocks, self.groups, layer.gates, LANES * dot.group)
        self.weights = argument("weights", weights, "int8")
        self.scales = argument("scales", results)
        self.totals = argument("totals", results, "int32")
        self.zeros = argument("zeros", results, "int32") if layer.has_weight_zeros else None

    def allocate_rows(self, rows: Extent) -> None:
        """Allocate the rounded rows."""
        self.rounded = allocate("rounded", (rows, -(-self.columns // LANES) * LANES), self.dot.dtype)
        self.row_sums = allocate("row_sums", (rows, LANES), "int32") if self.zeros is not None else None

    def round_row(self, row: Any, read: Callable[[Any], Value], rounding: Rounding) -> None:
        """Round a row, which is read by column or vector of columns."""
        if self.row_sums is not None:
            T.buffer_store(self.row_sums, spread(tirx.const(0, "int32")), [row, ALL_LANES])

        def write(column: Any) -> None:
            is_vector = isinstance(column, tirx.Ramp)
            widen = spread if is_vector else lambda value: value
            value = tirx.nearbyint(read(column) / widen(rounding.scale)) + widen(rounding.zero_point)
            value = tirx.max(tirx.min(value, single(LARGEST)), single(0)) - widen(rounding.offset)
            lanes = f"x{LANES}" if is_vector else ""
            integer = T.bind(tirx.Cast(f"int32{lanes}", value))
            T.buffer_store(self.rounded, tirx.Cast(f"{self.dot.dtype}{lanes}", integer), [row, column])
            if self.row_sums is not None:
                place = [row, ALL_LANES if is_vector else 0]
                T.buffer_store(self.row_sums, self.row_sums[*place] + integer, place)

        for_each_column(self.columns, write)
        if self.row_sums is not None:
            fold_lanes(self.row_sums, [row], lambda left, right: left + right)

    def multiply(
        self, rows: Sequence[Any], direction: Any, block: Any, gates: Sequence[int], rounding: Rounding
    ) -> Callable[[int, int], Value]:
        """Multiply rounded rows and the weights of a block of units; returns a reader of the results by row and gate."""
        dot, numbers = self.dot, range(len(rows))
        sums = allocate("sums", (len(rows), len(gates), LANES), "int32", scope="local")
        at_once = dot.gates_at_once(len(rows))
        for first in range(0, len(gates), at_once):
            part = gates[first : first + at_once]
            for place in [[number, gate, lanes] for number in numbers for gate in part for lanes in dot.vectors]:
                T.buffer_store(sums, tirx.Broadcast(tirx.const(0, "int32"), dot.lanes), place)
            with T.serial(0, self.groups) as group:
                values = [T.bind(self._values(row, group)) for row in rows]
                for gate in part:
                    for vector, lanes in enumerate(dot.vectors):
                        count = dot.lanes * dot.group
                        packed = tirx.Ramp(vector * count, 1, count)
                        weights = T.bind(self.weights[direction, block, group, gate, packed])
                        for number in numbers:
                            place = [number, gate, lanes]
                            T.buffer_store(sums, dot.add(sums[*place], values[number], weights), place)
        units = tirx.Ramp(block * LANES, 1, LANES)

        def result(number: int, gate: int) -> Value:
            total, column = sums[number, gate, ALL_LANES], (direction, gate, units)
            if rounding.remaining is not None:
                total = total - spread(rounding.remaining) * self.totals[*column]
            if self.zeros is not None and self.row_sums is not None:
                total = total - spread(self.row_sums[rows[number], 0]) * self.zeros[*column]
            return tirx.Cast(f"float32x{LANES}", total) * (spread(rounding.scale) * self.scales[*column])

        return result

    def _values(self, row: Any, group: Any) -> Value:
        """A group of values of a row, for each sum."""
        dot = self.dot
        if dot.group == 1:
            return tirx.Broadcast(self.rounded[row, group], dot.lanes)
        few = self.rounded[row, tirx.Ramp(group * dot.group, 1, dot.group)]
        whole = tirx.Broadcast(tirx.reinterpret("int32", few), dot.lanes)
        return tirx.reinterpret(f"{dot.dtype}x{dot.group * dot.lanes}", whole)


def for_each_column(columns: int, write: Callable[[Any], None]) -> None:
    """Write a loop over the columns of a row: over vectors, then over the columns that remain."""
    vectors, rest = divmod(columns, LANES)
    if vectors:
        with T.serial(0, vectors) as vector:
            write(tirx.Ramp(vector * LANES, 1, LANES))
    if rest:
        with T.serial(0, rest) as column:
            write(vectors * LANES + column)


def for_each_tile(rows: Extent, dot: Dot, write: Callable[[Sequence[Any]], None]) -> None:
    """Write a loop over tiles of rows, and what remains of them."""
    tile = dot.rows
    tiles = rows // tile if isinstance(rows, int) else tirx.floordiv(rows, tile)
    if not isinstance(rows, int) or rows >= tile:
        with T.serial(0, tiles) as number:
            write([number * tile + row for row in range(tile)])
    if not isinstance(rows, int):
        with T.serial(0, rows - tiles * tile) as row:
            write([tiles * tile + row])
    elif rows % tile:
        write(range(rows - rows % tile, rows))


def fold_lanes(buffer: Any, place: Sequence[Any], join: Callable[[Value, Value], Value]) -> None:
    """Join all lanes of a vector into the first one."""
    half = LANES // 2
    while half:
        low, high = (tirx.Ramp(first, 1, half) if half > 1 else first for first in (0, half))
        T.buffer_store(buffer, join(buffer[*place, low], buffer[*place, high]), [*place, low])
        half //= 2


def allocate(name: str, shape: Sequence[Extent], dtype: str = "float32", scope: str = "global") -> Any:
    """A buffer of a kernel."""
    return IRBuilder.name(name, T.alloc_buffer(tuple(shape), dtype, scope=scope))


def single(value: float) -> Any:
    """A constant."""
    return tirx.const(value, "float32")


def spread(value: Any) -> Value:
    """A vector of equal elements."""
    return tirx.Broadcast(value, LANES)
