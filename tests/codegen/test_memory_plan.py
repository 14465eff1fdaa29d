"""Memory planned by the bounds of dynamic dimensions."""

from pathlib import Path

import tvm

from tests.codegen.conftest import Transformed, dimensions_net
from tvmake.artifact.module_files import load_module
from tvmake.codegen.lowering import lower
from tvmake.config.build import PassOptions
from tvmake.ir.bounds import LOWER, UPPER
from tvmake.ir.expressions import bindings, is_call

TARGET = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3"})


def storage_sizes(net: Transformed) -> list[int | None]:
    """Bytes of each allocation, None where it depends on the inputs; the output's, the last one, is left out."""
    main = lower(load_module(net.module), TARGET, [], PassOptions(), inputs=2).final["main"]
    calls = (binding.value for binding in bindings(main))
    sizes = [call.args[0] for call in calls if is_call(call, "vm.alloc_storage")]
    return [int(size[0]) if isinstance(size, tvm.relax.ShapeExpr) else None for size in sizes[:-1]]


def test_with_bounds_each_run_takes_the_same_memory(bounded_net: Transformed):
    sizes = storage_sizes(bounded_net)
    assert None not in sizes and max(sizes) == 4 * 64 * 256 * 4


def test_one_dimension_without_an_upper_bound_makes_memory_depend_on_inputs(tmp_path: Path):
    assert None in storage_sizes(dimensions_net(tmp_path, {"batch": {"max": 4}}))


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
