"""Every converted operator agrees with jax."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.requirements import need_module

need_module("jax", "pip install 'tvmake[stablehlo]'")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

from tests.frontend.stablehlo.programs import assert_as_jax, drawn  # noqa: E402

X, Y = drawn(3, 4), drawn(3, 4, seed=1)
IMAGE, PIXELS = drawn(2, 9, 8, 3), drawn(2, 3, 9, 8)
WHOLE = np.array([[7, -7, 3, 0], [-3, 5, -8, 2]], "int32")
OTHER = np.array([[2, 2, -2, 5], [2, -3, 3, -1]], "int32")
ROWS = np.array([[4, 0], [2, -1]], "int32")


def conv(*kernel: int, spec: tuple[str, str, str] = ("NHWC", "HWIO", "NHWC"), **options: Any) -> Callable[..., Any]:
    weight, strides, padding = drawn(*kernel, seed=2), options.pop("strides", (1, 1)), options.pop("padding", "SAME")
    return lambda x: lax.conv_general_dilated(x, weight, strides, padding, dimension_numbers=spec, **options)


def window(start: float, combine: Any, *sizes: Any) -> Callable[..., Any]:
    return lambda x: lax.reduce_window(x, np.float32(start), combine, *sizes)


def recurrent(x: Any) -> Any:
    weight = drawn(4, 4, seed=3)

    def step(state: Any, row: Any) -> Any:
        state = jnp.tanh(row + state @ weight)
        return state, state

    return lax.scan(step, jnp.zeros((4,)), x)


def attention(x: Any) -> Any:
    q, k, v = (jnp.einsum("btc,chd->bthd", x, drawn(8, 2, 4, seed=seed)) for seed in range(3))
    weights = jnp.einsum("bthd,bshd->bhts", q, k) / 2
    weights = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((5, 5), bool)), weights, -1e9))
    return jnp.einsum("bhts,bshd->bthd", weights, v).reshape(2, 5, 8)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "sharding": (
        lambda x: lax.with_sharding_constraint(x, jax.sharding.SingleDeviceSharding(jax.devices("cpu")[0])) * 2,
        (X,),
    ),
    "integer division by zero": (lambda x, y: [lax.div(x, y), lax.rem(x, y)], (WHOLE, ROWS.repeat(2, 1))),
    "arithmetic": (lambda x, y: (x + y) * (x - y) / (abs(y) + 1) - -x, (X, Y)),
    "functions": (
        lambda x: [
            jnp.exp(x),
            jnp.log(abs(x)),
            jnp.sqrt(abs(x)),
            lax.rsqrt(abs(x)),
            jnp.sin(x),
            jnp.cos(x),
            jnp.tan(x),
            jnp.tanh(x),
            lax.logistic(x),
        ],
        (X,),
    ),
    "more functions": (
        lambda x, y: [
            jnp.expm1(x),
            jnp.log1p(abs(x)),
            jnp.cbrt(x),
            jnp.arctan2(x, y),
            lax.erf(x),
            jnp.sign(x),
            jnp.power(abs(x), y),
        ],
        (X, Y),
    ),
    "near zero": (lambda x: [jnp.expm1(x), jnp.log1p(x)], (np.array([1e-6, -3e-5, 1e-12, 0, 0.3], "float32"),)),
    "rounding": (
        lambda x: [jnp.round(x), jnp.floor(x), jnp.ceil(x), lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO)],
        (np.array([0.5, 1.5, 2.5, -0.5, -1.5, 0.4, -2.6], "float32"),),
    ),
    "comparisons": (
        lambda x, y: [x < y, x <= y, x > y, x >= y, x == y, x != y, ~(x < y) & (x > 0) | (y > 0), jnp.isfinite(x)],
        (X, Y),
    ),
    "choices": (
        lambda x, y: [jnp.where(x > 0, x, y), jnp.clip(x, -0.5, 0.5), jnp.maximum(x, y), jnp.minimum(x, 0.1)],
        (X, Y),
    ),
    "integers": (
        lambda a, b: [lax.div(a, b), lax.rem(a, b), a // b, a % b, a & b, a | b, a ^ b, ~a, a << 1, a >> 1],
        (WHOLE, OTHER),
    ),
    "remainders": (lambda x, y: [lax.rem(x, y), x % y], (X, Y)),
    "types": (
        lambda x: [x.astype("int32"), (x > 0).astype("float32"), x.astype(bool), lax.reduce_precision(x, 5, 10)],
        (3 * X,),
    ),
    "activations": (
        lambda x: [
            jax.nn.relu(x),
            jax.nn.gelu(x),
            jax.nn.gelu(x, approximate=False),
            jax.nn.silu(x),
            jax.nn.elu(x),
            jax.nn.softplus(x),
            jax.nn.relu6(x),
            jax.nn.leaky_relu(x),
            jax.nn.log_softmax(x),
        ],
        (X,),
    ),
    "shapes": (
        lambda x: [
            x.reshape(2, 6),
            x.T,
            x[:, None] * jnp.ones((3, 5, 4)),
            jnp.concatenate([x, 2 * x], 1),
            x[::2, 1:3],
            x[:, ::-1],
            jnp.stack([x, x]),
            jnp.tile(x, (2, 1)),
        ],
        (X,),
    ),
    "padding": (
        lambda x: [
            jnp.pad(x, ((1, 2), (0, 3)), constant_values=1.5),
            lax.pad(x, np.float32(7), ((1, 0, 2), (-1, 2, 1))),
            lax.pad(x, np.float32(-np.inf), ((-1, -1, 0), (0, 1, 0))),
        ],
        (X,),
    ),
    "padded bools": (lambda x: jnp.pad(x > 0, 1, constant_values=True), (X,)),
    "sums": (
        lambda x: [
            x.sum(),
            x.mean(0),
            x.max(1),
            x.min((0, 1)),
            x.prod(1),
            x.var(1),
            x.std(),
            jnp.sum(x, 1) + jnp.sum(x > 0),
        ],
        (X,),
    ),
    "all and any": (lambda x: [jnp.all(x > -1, 1), jnp.any(x > 1, 0), (x > 0).max(1)], (X,)),
    "first true": (lambda x: [jnp.argmax(x > 0, 1), jnp.select([x > 1, x < 0], [x, -x], 0.0)], (X,)),
    "extrema": (lambda x: [jnp.argmax(x, 1), jnp.argmin(x, 0), jnp.argmax(x), x.argmax(1, keepdims=True)], (X,)),
    "order": (lambda x: [jnp.sort(x, 1), jnp.sort(x, 0, descending=True), jnp.argsort(x, 1), *lax.top_k(x, 2)], (X,)),
    "running": (
        lambda x: [
            jnp.cumsum(x, 1),
            jnp.cumprod(x, 0),
            lax.cummax(x, 1),
            lax.cumsum(x, 1, reverse=True),
            lax.cummin(x, 0),
        ],
        (X,),
    ),
    "max pool": (window(-np.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"), (IMAGE,)),
    "min pool": (window(np.inf, lax.min, (1, 1, 2, 3), (1, 1, 2, 1), ((0, 0), (0, 0), (1, 0), (1, 2))), (PIXELS,)),
    "sum pool": (window(0, lax.add, (1, 3, 2, 1), (1, 2, 1, 1), "SAME"), (IMAGE,)),
    "dilated pool": (
        lambda x: lax.reduce_window(
            x, -np.inf, lax.max, (1, 2, 2, 1), (1, 1, 1, 1), "VALID", window_dilation=(1, 2, 3, 1)
        ),
        (IMAGE,),
    ),
    "products": (
        lambda x: [
            x @ drawn(4, 5, seed=4),
            drawn(2, 3, seed=5) @ x,
            x @ x.T,
            x[0] @ x[1],
            x @ drawn(4, seed=6),
            jnp.outer(x[0], x[1]),
            jnp.tensordot(x, x),
        ],
        (X,),
    ),
    "batched products": (
        lambda x, y: [
            jnp.einsum("bij,bkj->bik", x, y),
            jnp.einsum("bij,bij->b", x, y),
            jnp.einsum("bij,bij->ij", x, y),
            jnp.einsum("bij,kij->ibk", x, y),
        ],
        (drawn(2, 3, 4), drawn(2, 3, 4, seed=1)),
    ),
    "integer products": (
        lambda a, b: lax.dot_general(a, b, (((1,), (1,)), ((), ())), preferred_element_type="int32"),
        (WHOLE.astype("int8"), OTHER.astype("int8")),
    ),
    "convolution": (conv(3, 3, 3, 5), (IMAGE,)),
    "strided convolution": (conv(3, 2, 3, 4, strides=(2, 3), padding=((1, 0), (2, 1))), (IMAGE,)),
    "dilated convolution": (conv(3, 3, 3, 4, rhs_dilation=(2, 1)), (IMAGE,)),
    "grouped convolution": (conv(3, 3, 1, 6, feature_group_count=3), (IMAGE,)),
    "transposed convolution": (lambda x: lax.conv_transpose(x, drawn(3, 3, 3, 4, seed=2), (2, 2), "SAME"), (IMAGE,)),
    "convolution of channels first": (conv(4, 3, 3, 3, spec=("NCHW", "OIHW", "NCHW")), (PIXELS,)),
    "convolution with negative padding": (conv(2, 2, 3, 4, padding=((-1, 0), (1, -1))), (IMAGE,)),
    "convolution of sequences": (conv(3, 4, 6, spec=("NWC", "WIO", "NWC"), strides=(2,)), (drawn(2, 7, 4),)),
    "convolution of volumes": (
        conv(2, 2, 2, 3, 4, spec=("NDHWC", "DHWIO", "NDHWC"), strides=(1, 1, 2)),
        (drawn(1, 4, 5, 6, 3),),
    ),
    "lookups": (
        lambda x, i: [jnp.asarray(drawn(6, 4))[i], jnp.take(x, i, axis=1), x[i[0], i[1]], x[:, i[0]], x[1, i]],
        (X, ROWS % 3),
    ),
    "lookups along": (
        lambda x, i: [jnp.take_along_axis(x, i, axis=1), jnp.take(x, 1, axis=0)],
        (X, np.array([[3, 0], [1, 1], [2, -1]], "int32")),
    ),
    "windows at indices": (
        lambda x, i: [
            jax.vmap(lambda v, n: lax.dynamic_slice(v, (n, 0), (2, 8)))(x, i),
            jax.vmap(lambda n: lax.dynamic_slice(x, (0, n, 0), (2, 2, 4)), out_axes=1)(i),
            lax.gather(
                x, jnp.stack([i, i], 1), lax.GatherDimensionNumbers((0, 2), (1,), (2, 0)), (1, 1, 3), mode="clip"
            ),
        ],
        (drawn(2, 5, 8), np.array([4, -1], "int32")),
    ),
    "slices by number": (
        lambda x, i: [
            lax.dynamic_slice(x, (i[0], 1), (2, 2)),
            lax.dynamic_update_slice(x, jnp.ones((2, 2)), (i[0], 0)),
            lax.dynamic_update_slice(x, jnp.ones((1, 4)), (i[0], 0)),
            lax.dynamic_index_in_dim(x, i[0], 0),
        ],
        (X, np.array([2], "int32")),
    ),
    "a recurrent network": (recurrent, (X,)),
    "a loop": (lambda x: lax.fori_loop(0, 3, lambda i, v: v * 1.5 + i, x), (X,)),
    "attention": (attention, (drawn(2, 5, 8),)),
    "writing at indices": (
        lambda x, i: [
            x.at[1, 2:].set(7.0),
            x.at[i].add(x[i] * 2),
            x.at[:, i].min(-1.0),
            x.at[i, i].multiply(3.0),
            x.at[i].max(0.1),
            (x > 0).at[i, 0].set(True),
            jnp.zeros((3, 4), "int32").at[jnp.arange(3), i].set(5),
            x.at[i * 2].set(9.0),
        ],
        (X, np.array([2, 0, -1], "int32")),
    ),
    "writing windows, without those that reach outside": (
        lambda x, i: lax.scatter_add(
            x,
            i[:, None],
            jnp.ones((4, 2, 2)),
            lax.ScatterDimensionNumbers(
                update_window_dims=(1, 2), inserted_window_dims=(), scatter_dims_to_operand_dims=(0,)
            ),
            mode=lax.GatherScatterMode.FILL_OR_DROP,
        ),
        (drawn(5, 2), np.array([0, 3, 4, -1], "int32")),
    ),
    "sums of segments": (
        lambda x, i: [jax.ops.segment_sum(x, i, 4), jnp.bincount(i, length=3), jnp.nonzero(x > 0, size=5)[1]],
        (X, np.array([2, 0, 2], "int32")),
    ),
    "branches": (
        lambda x, i: [
            lax.cond(x.sum() > 0, lambda v: (v + 1, v.sum()), lambda v: (v * 2, v.max()), x),
            lax.cond(x[0, 0] > 0, lambda v: lax.cond(v[1, 1] > 0, jnp.sin, jnp.cos, v), jnp.tan, x),
            [lax.switch(n, [lambda v: v, lambda v: v + 1, lambda v: -v], x) for n in (i[0], i[1], i[2])],
            lax.cond(np.True_, jnp.sin, jnp.cos, x),
        ],
        (X, np.array([1, 7, -3], "int32")),
    ),
    "sorting by several arrays": (
        lambda x: [
            lax.sort((jnp.floor(x), x * 2, x), dimension=1, num_keys=2),
            lax.sort((jnp.floor(x), x), dimension=0, num_keys=1),
            jnp.lexsort((x[0], jnp.floor(x[1]))),
            jnp.argsort(x, axis=0),
            jnp.argsort(x, axis=1, descending=True),
        ],
        (2 * X,),
    ),
    "sorting of types that TVM does not sort": (
        lambda x: [jnp.sort(x), jnp.argsort(x.astype("uint8"), descending=True), jnp.sort(x > 5)],
        (np.array([3, 2**32 - 1, 7, 9], "uint32"),),
    ),
    "bits": (
        lambda x, i: [
            lax.bitcast_convert_type(x, "int32"),
            lax.bitcast_convert_type(i, "float32"),
            lax.shift_right_logical(i, 3),
            jnp.nextafter(x, 2.0),
            jnp.signbit(x),
        ],
        (X, WHOLE),
    ),
    "counts of bits": (
        lambda *numbers: [count(x) for x in numbers for count in (lax.population_count, lax.clz)],
        tuple(np.array([0, 1, 77, -1, -5, 127], dtype) for dtype in ("int8", "int16", "int32"))
        + tuple(np.array([0, 1, 77, 255, 128], dtype) << shift for dtype, shift in (("uint8", 0), ("uint32", 24))),
    ),
    "steps between numbers": (
        lambda x: [
            jnp.searchsorted(jnp.array([-1.0, 0.0, 1.0]), x),
            jnp.interp(x, jnp.array([-1.0, 0.0, 1.0]), jnp.array([0.0, 2.0, 3.0])),
            jnp.digitize(x, jnp.array([-1.0, 0.0])),
        ],
        (np.array([0.5, -0.0, 0.0, np.nan, -np.inf, 7, -1], "float32"),),
    ),
    "random numbers of a key": (
        lambda x, k: [
            x + jax.random.normal(jax.random.key(0), (3, 4)),
            jax.random.uniform(jax.random.wrap_key_data(k), (3, 4)),
        ],
        (X, np.array([1, 2], "uint32")),
    ),
    "iota": (
        lambda x: x * lax.iota("float32", 4) + lax.broadcasted_iota("float32", (3, 4), 0) + jnp.linspace(0, 1, 4),
        (X,),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_agrees_with_jax(name: str, tmp_path: Path):
    function, inputs = PROGRAMS[name]
    assert_as_jax(tmp_path, function, *inputs)
