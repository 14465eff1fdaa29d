"""Memory planned by the bounds of dynamic dimensions."""

from pathlib import Path

import numpy as np
import tvm
from onnx import helper

from tests.codegen.conftest import Transformed, dimensions_net
from tests.frontend.onnx.models import FLOAT, model, random, read, runtime, save
from tvmake.artifact.module_files import load_module
from tvmake.codegen.lowering import lower
from tvmake.codegen.memory_plan import PlanMemory
from tvmake.codegen.options import PassOptions
from tvmake.ir.bounds import LOWER, UPPER
from tvmake.ir.expressions import bindings, is_call
from tvmake.transform.graph import transform
from tvmake.transform.options import TransformRequest

from tvm import relax, topi  # isort: skip

TARGET = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3"})


def storage_sizes(net: Transformed) -> list[int | None]:
    """Bytes of each allocation, None if it depends on the inputs; without the output's, the last one."""
    main = lower(load_module(net.module), TARGET, [], PassOptions(), inputs=2).final["main"]
    calls = (binding.value for binding in bindings(main))
    sizes = [call.args[0] for call in calls if is_call(call, "vm.alloc_storage")]
    return [int(size[0]) if isinstance(size, tvm.relax.ShapeExpr) else None for size in sizes[:-1]]


def test_with_bounds_each_run_takes_the_same_memory(bounded_net: Transformed):
    sizes = storage_sizes(bounded_net)
    assert None not in sizes and max(sizes) == 4 * 64 * 256 * 4


def test_one_dimension_without_an_upper_bound_makes_memory_depend_on_inputs(tmp_path: Path):
    assert None in storage_sizes(dimensions_net(tmp_path, {"batch": {"max": 4}}))


def test_without_bounds_a_storage_is_as_large_as_the_largest_of_its_tensors(tmp_path: Path):
    """Scores [n, n] share storage with features [n, 64], and neither is the larger one at all sizes."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["features"]),
        helper.make_node("Transpose", ["features"], ["columns"], perm=[1, 0]),
        helper.make_node("MatMul", ["features", "columns"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["shares"], axis=1),
        helper.make_node("MatMul", ["shares", "x"], ["mean"]),
        helper.make_node("MatMul", ["mean", "w"], ["y"]),
    ]
    made = model(nodes, {"x": (FLOAT, ["n", 4])}, ["y"], {"w": random(4, 64)})
    imported = read(save(tmp_path / "m.onnx", made))
    module, params = transform(imported.module, imported.params, TransformRequest())
    final = lower(module, TARGET, [], PassOptions(), inputs=1, rules=False).final
    assert sum(is_call(binding.value, "vm.alloc_storage") for binding in bindings(final["main"])) <= 4
    machine = relax.VirtualMachine(tvm.compile(final, TARGET, relax_pipeline="zero"), tvm.cpu())
    for count in (1, 63, 64, 200, 5):
        x = random(count, 4)
        found = machine["main"](*map(tvm.runtime.tensor, (x, *params.values())))
        np.testing.assert_allclose(found.numpy(), runtime(made, [x])[0], rtol=1e-4, atol=1e-5)


def test_storage_is_not_larger_than_sizes_that_are_known_when_it_is_allocated():
    """``rows`` is read after the storage of ``exponents`` is allocated, which is free again when ``larger`` needs some.

    TVM knows a bound of ``min(m, 1000)``.
    """
    n, m = tvm.tirx.Var("n", "int64"), tvm.tirx.Var("m", "int64")
    x, rows = (
        relax.Var("x", relax.TensorType([n, 64], "float32")),
        relax.Var("rows", relax.TensorType(dtype="int64", ndim=1)),
    )
    builder = relax.BlockBuilder()
    with builder.function("main", [x, rows]):
        exponents = builder.emit_te(topi.exp, x)
        sums = builder.emit_te(topi.sum, exponents, axis=1)
        known = builder.match_cast(rows, relax.TensorType([m], "int64"))
        larger = builder.emit_te(
            lambda r: tvm.te.compute((tvm.tirx.min(m, 1000), 64), lambda i, j: (r[i] + j).astype("float32")), known
        )
        larger_sums = builder.emit_te(topi.sum, larger, axis=1)
        builder.emit_func_output(relax.Tuple([sums, larger_sums]))
    module = PlanMemory({})(relax.transform.CallTIRRewrite()(builder.get()))
    seen = {n}
    for binding in bindings(module["main"]):
        if isinstance(binding, relax.MatchCast):
            seen.add(m)
        elif is_call(binding.value, "memory.alloc_storage"):
            assert set(tvm.tirx.analysis.undefined_vars(binding.value.args[0][0])) <= seen


def test_bounds_that_would_take_more_memory_than_machines_have_are_not_planned_for(tmp_path: Path):
    for name, largest in (("large", 1 << 20), ("beyond 64 bits", (1 << 31) - 1)):
        (tmp_path / name).mkdir()
        dims = {"batch": {"max": largest}, "length": {"max": largest}}
        assert None in storage_sizes(dimensions_net(tmp_path / name, dims))


def test_every_pass_up_to_the_plan_sees_the_bounds(bounded_net: Transformed):
    seen = {}

    @tvm.ir.instrument.pass_instrument
    class Watcher:
        def run_before_pass(self, module: tvm.IRModule, info: object) -> None:
            if "main" in [str(name.name_hint) for name in module.get_global_vars()] and len(module["main"].params) > 2:
                attributes = module["main"].attrs
                seen[info.name] = LOWER in attributes and UPPER in attributes

    lower(load_module(bounded_net.module), TARGET, [], PassOptions(), inputs=2, instruments=[Watcher()])
    assert seen["FuseOps"] and seen["StaticPlanBlockMemory"] and all(seen.values())
