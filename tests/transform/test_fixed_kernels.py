"""Kernels that an import wrote get the sizes to which a config fixes dimensions, so that TVM can fuse them."""

from typing import Any

import numpy as np
import tvm

from tests.unoptimised import compile_unoptimised
from tvmake.transform.fixed_kernels import fix_kernel_sizes
from tvmake.transform.graph import bind_dims

from tvm import relax, te, tirx  # isort: skip


def network(*rows: Any) -> "tvm.IRModule":
    """A written kernel that doubles tensors of these numbers of rows."""
    n = tirx.Var("rows", "int64")
    x = te.placeholder((n, 3), name="x")
    kernel = te.create_prim_func([x, te.compute((n, 3), lambda i, j: x[i, j] * 2.0, name="y")])
    builder = relax.BlockBuilder()
    doubled = builder.add_func(kernel, "doubled")
    inputs = [relax.Var(f"x{index}", relax.TensorType([count, 3], "float32")) for index, count in enumerate(rows)]
    with builder.function("main", inputs):
        results = [builder.emit(relax.call_tir(doubled, [value], out_ty=value.ty)) for value in inputs]
        builder.emit_func_output(relax.Tuple(results))
    return builder.get()


def rows_of(module: "tvm.IRModule") -> Any:
    return module["doubled"].params[0].ty.shape[0]


def test_a_kernel_has_the_size_of_its_calls():
    batch = tirx.Var("batch", "int64")
    module = bind_dims(network(batch), {"batch": 4})
    assert int(rows_of(module)) == 4 and isinstance(rows_of(network(batch)), tirx.Var)
    values = tvm.runtime.tensor(np.arange(12, dtype="float32").reshape(4, 3))
    result = tvm.runtime.tensor(np.zeros((4, 3), "float32"))
    compile_unoptimised(tvm.IRModule({"doubled": module["doubled"].with_attr("global_symbol", "doubled")}))["doubled"](
        values, result
    )
    np.testing.assert_array_equal(result.numpy(), 2 * values.numpy())


def test_a_kernel_that_is_called_at_several_sizes_keeps_its_dimension():
    assert isinstance(rows_of(fix_kernel_sizes(network(4, 5))), tirx.Var)
    assert isinstance(rows_of(fix_kernel_sizes(network(4, tirx.Var("batch", "int64")))), tirx.Var)
    assert int(rows_of(fix_kernel_sizes(network(4, 4)))) == 4
