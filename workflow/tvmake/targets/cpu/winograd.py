"""Compute 3 × 3 convolutions by Winograd's algorithm, with a quarter of the multiplications.

Tiles of 4 × 4 results are computed from tiles of 6 × 6 values. Data and kernel are transformed, multiplied element by
element, summed over the channels (36 matmuls), and transformed back: Y = Aᵀ [(G w Gᵀ) ⊙ (Bᵀ d B)] A. (Lavin and Gray,
"Fast Algorithms for Convolutional Neural Networks", 2016, F(4×4, 3×3).) Sums of 64 channels reach a precision of 119
dB.

The weights are transformed when the package is built, and then take four times the memory. So they stay unchanged if
they are large, or if few tiles share them. All machines compute the same bits: the transform applies integers and
powers of two first, in a fixed order, and divides last.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.dimensions import estimate_extent, is_known
from tvmake.ir.expressions import extents, fixed_shape, is_call
from tvmake.ir.rewriting import definition, rewritten
from tvmake.targets.weights.layouts import SAME_EVERYWHERE

from tvm import te  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

RESULTS, VALUES, WINDOW = 4, 6, 3
"""Size of a tile of results, of a tile of values, and of the kernel window."""

DATA = (
    (4, 0, -5, 0, 1, 0),
    (0, -4, -4, 1, 1, 0),
    (0, 4, -4, -1, 1, 0),
    (0, -2, -1, 2, 1, 0),
    (0, 2, -1, -2, 1, 0),
    (0, 4, 0, -5, 0, 1),
)
"""Bᵀ."""

BACK = ((1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 0), (0, 1, 1, 4, 4, 0), (0, 1, -1, 8, -8, 1))
"""Aᵀ."""

WEIGHTS = ((1, 0, 0), (-1, -1, -1), (-1, 1, -1), (1, 2, 4), (1, -2, 4), (0, 0, 1))
DIVISORS = (4, 6, 6, 24, 24, 1)
"""G: its rows, and the divisor of each row."""

FEWEST_TILES = 36
"""Minimum tiles of an image: with fewer, reading the weights four times costs more than the algorithm gains."""

MOST_BYTES = 1 << 22
"""Maximum size of the transformed weights: each strip of tiles reads them again, from the second-level cache."""

FEWEST_LANES = 4
"""Channels and filters must be multiples of half a vector, and of this number."""

PART = "tvmake.winograd"
"""Annotation of a block of such a kernel: which of :data:`PARTS` it computes."""

PARTS = ("padded", "data_rows", "data", "products", "result_rows", "tiles", "results")

OUT_ELEMENTWISE_FUSIBLE, OPAQUE = 4, 8
"""``OpPatternKind`` kOutEWiseFusable and kOpaque (include/tvm/relax/op_attr_types.h)."""


def to_winograd(module: "tvm.IRModule", lanes: int, inputs: int) -> "tvm.IRModule":
    """Convert the network's float32 convolutions that gain from it to Winograd's form.

    Args:
        module: in NHWC.
        lanes: number of float32 values in a vector of the CPU.
        inputs: number of model inputs among ``main``'s arguments; the others are weights.
    """
    return rewritten(module, _WinogradMutator(module, lanes, inputs))


def is_winograd(kernel: "tvm.tirx.PrimFunc") -> bool:
    """Whether an unscheduled kernel is such a convolution."""
    blocks: list[Any] = []

    def note(block: Any) -> None:
        if PART in block.annotations:
            blocks.append(block)

    tvm_ffi.structural_walk(kernel.body, (tvm.s_tir.SBlock, note))
    return bool(blocks)


@mutator
class _WinogradMutator(PyExprMutator):
    def __init__(self, module: "tvm.IRModule", lanes: int, inputs: int):
        super().__init__(module)
        self._lanes = lanes
        self._weights = set(module["main"].params[inputs:])

    def visit_call_(self, op: Any) -> Any:
        call = self.visit_expr_post_order(op)
        if not _gains(call, self._lanes) or not self._is_weight(call.args[1]):
            return call
        data, weight = call.args
        padding = [int(width) for width in call.attrs.padding]
        transformed = self.builder_.emit(
            self.builder_.call_te(
                _transform_weights,
                weight,
                primfunc_name_hint="winograd_weights",
                primfunc_attrs={"op_pattern": OPAQUE, SAME_EVERYWHERE: True},
            )
        )

        def kernel(x: Any, weights: Any) -> Any:
            return _convolution(x, weights, padding)

        return self.builder_.call_te(
            kernel,
            data,
            transformed,
            primfunc_name_hint="conv2d_winograd",
            primfunc_attrs={"op_pattern": OUT_ELEMENTWISE_FUSIBLE},
        )

    def _is_weight(self, value: Any) -> bool:
        """Whether a value is a parameter, possibly with its axes transposed."""
        producer = definition(self, value)
        return producer in self._weights or (is_call(producer, "permute_dims") and self._is_weight(producer.args[0]))


def _gains(call: Any, lanes: int) -> bool:
    """Whether a call is such a convolution, and large enough."""
    if not is_call(call, "nn.conv2d"):
        return False
    attrs, weight = call.attrs, fixed_shape(call.args[1])
    result = list(map(estimate_extent, extents(call)))
    layouts = (str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout))
    kinds = {str(value.ty.dtype) for value in (*call.args, call)}
    if layouts != ("NHWC", "OHWI", "NHWC") or kinds != {"float32"} or weight is None or not result:
        return False
    if weight[1:3] != [WINDOW, WINDOW] or [int(step) for step in (*attrs.strides, *attrs.dilation)] != [1] * 4:
        return False
    filters, channels = weight[0], weight[3]
    multiple = max(FEWEST_LANES, lanes // 2)
    return (
        int(attrs.groups) == 1
        and filters % multiple == channels % multiple == 0
        and _tiles(result[1]) * _tiles(result[2]) >= FEWEST_TILES
        and 4 * VALUES * VALUES * filters * channels <= MOST_BYTES
    )


def _tiles(extent: Any) -> Any:
    return (extent - 1) // RESULTS + 1


def _transform_weights(weight: Any) -> Any:
    """Transform weights (filters, 3, 3, channels) to (6, 6, channels, filters)."""
    filters, _, _, channels = weight.shape

    def rows(filter: Any, row: Any, column: Any, channel: Any) -> Any:
        return _multiply_row(row, WEIGHTS, lambda index: weight[filter, index, column, channel])

    by_rows = te.compute((filters, VALUES, WINDOW, channels), rows, "weight_rows")

    def both(row: Any, column: Any, channel: Any, filter: Any) -> Any:
        whole = _multiply_row(column, WEIGHTS, lambda index: by_rows[filter, row, index, channel])
        return whole * _last_factor(row, column)

    return te.compute((VALUES, VALUES, channels, filters), both, "weights")


def _last_factor(row: Any, column: Any) -> Any:
    """The last factor of a transformed weight."""
    last = [
        _select(column, [_constant(1 / (row_divisor * column_divisor)) for column_divisor in DIVISORS])
        for row_divisor in DIVISORS
    ]
    return _select(row, last)


def _convolution(data: Any, weights: Any, padding: Sequence[int]) -> Any:
    """Convolve (N, H, W, channels) with weights (6, 6, channels, filters); padding: top, left, bottom, right."""
    count, height, width, channels = (int(extent) if is_known(extent) else extent for extent in data.shape)
    filters = int(weights.shape[3])
    top, left, bottom, right = padding
    high, wide = height + (top + bottom - WINDOW + 1), width + (left + right - WINDOW + 1)
    down, across = _tiles(high), _tiles(wide)
    padded = _part(
        "padded",
        (count, down * RESULTS + WINDOW - 1, across * RESULTS + WINDOW - 1, channels),
        lambda n, y, x, c: tvm.tirx.if_then_else(
            tvm.tirx.all(y >= top, y < height + top, x >= left, x < width + left),
            data[n, y - top, x - left, c],
            _constant(0),
        ),
    )
    data_rows = _part(
        "data_rows",
        (count, down, across, VALUES, VALUES, channels),
        lambda n, ty, tx, i, x, c: _multiply_row(i, DATA, lambda y: padded[n, ty * RESULTS + y, tx * RESULTS + x, c]),
    )
    transformed = _part(
        "data",
        (VALUES, VALUES, count, down, across, channels),
        lambda i, j, n, ty, tx, c: _multiply_row(j, DATA, lambda x: data_rows[n, ty, tx, i, x, c]),
    )
    channel = te.reduce_axis((0, channels), "channel")
    products = _part(
        "products",
        (VALUES, VALUES, count, down, across, filters),
        lambda i, j, n, ty, tx, k: te.sum(transformed[i, j, n, ty, tx, channel] * weights[i, j, channel, k], [channel]),
    )
    result_rows = _part(
        "result_rows",
        (count, down, across, RESULTS, VALUES, filters),
        lambda n, ty, tx, y, j, k: _multiply_row(y, BACK, lambda i: products[i, j, n, ty, tx, k]),
    )
    tiles = _part(
        "tiles",
        (count, down, across, RESULTS, RESULTS, filters),
        lambda n, ty, tx, y, x, k: _multiply_row(x, BACK, lambda j: result_rows[n, ty, tx, y, j, k]),
    )
    return _part(
        "results",
        (count, high, wide, filters),
        lambda n, y, x, k: tiles[n, y // RESULTS, x // RESULTS, y % RESULTS, x % RESULTS, k],
    )


def _part(name: str, shape: tuple[Any, ...], value: Callable[..., Any]) -> Any:
    return te.compute(shape, value, f"winograd_{name}", attrs={PART: name})


def _multiply_row(row: Any, matrix: Sequence[Sequence[int]], value: Callable[[int], Any]) -> Any:
    """A row of a matrix times a vector of values."""
    return _select(row, [_weighted_sum(numbers, value) for numbers in matrix])


def _select(index: Any, values: Sequence[Any]) -> Any:
    selected = values[-1]
    for number in range(len(values) - 2, -1, -1):
        selected = tvm.tirx.Select(index == number, values[number], selected)
    return selected


def _weighted_sum(numbers: Sequence[int], value: Callable[[int], Any]) -> Any:
    """A weighted sum of values; weights of 1 and 0 cost nothing."""
    total = None
    for index, number in enumerate(numbers):
        if not number:
            continue
        term = value(index) if abs(number) == 1 else value(index) * _constant(abs(number))
        if total is None:
            total = term if number > 0 else _constant(-1) * term
        else:
            total = total + term if number > 0 else total - term
    return total


def _constant(value: float) -> Any:
    return tvm.tirx.const(value, "float32")
