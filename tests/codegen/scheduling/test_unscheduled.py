"""Which kernels of a package have no schedule, their share of the time, and why."""

from dataclasses import replace
from typing import Any

import pytest
import tvm

from tests.targets.cpu.schedules.nets import NATIVE
from tests.tune.graphs import graph
from tvmake.artifact.manifest import Unscheduled
from tvmake.codegen.dynamic_sizes import evaluate_extent, representative_sizes
from tvmake.codegen.lowering import Lowered, lower
from tvmake.codegen.options import PassOptions
from tvmake.codegen.scheduling.kernel_parts import kernel_parts
from tvmake.codegen.scheduling.unscheduled import unscheduled
from tvmake.ir.bounds import LOWER, UPPER
from tvmake.ir.dimensions import TYPICAL_EXTENT, fix_dimensions
from tvmake.targets.cpu.channels_last import LAYOUT_FAILURE

op = tvm.relax.op
F32 = "float32"


def dimension(name: str) -> Any:
    return tvm.tirx.Var(name, "int64")


def lowered(
    module: "tvm.IRModule", target: "tvm.target.Target" = NATIVE, *, rules: bool = True, inputs: int = 1
) -> Lowered:
    return lower(module, target, [], PassOptions(), inputs, rules=rules)


def plain(found: Lowered) -> Lowered:
    """The same kernels, as if no rule had scheduled any."""
    return replace(found, fused=found.unscheduled, ruled=frozenset())


@pytest.fixture(scope="module")
def fixed_net() -> Lowered:
    def net(x: Any, first: Any, second: Any) -> Any:
        return op.nn.softmax(op.matmul(op.nn.relu(op.matmul(x, first)), second))

    return lowered(graph(net, ((64, 256), F32), ((256, 512), F32), ((512, 128), F32)))


@pytest.fixture(scope="module")
def dynamic_net() -> Lowered:
    length = dimension("length")
    return lowered(graph(lambda x, weight: op.matmul(x, weight), ((length, 256), F32), ((256, 512), F32)))


def test_a_network_that_rules_schedule_whole_has_nothing_without_a_schedule(fixed_net):
    assert unscheduled(fixed_net, NATIVE) == Unscheduled(time_share=0.0)


def test_without_rules_everything_is_plain_and_the_key_is_the_reason(fixed_net):
    found = unscheduled(plain(fixed_net), NATIVE, has_rules=False)
    assert found.time_share > 0.99
    assert {kernel.reason for kernel in found.kernels} == {"build.schedule_rules is false; leave it out"}
    assert [kernel.time_share for kernel in found.kernels] == sorted(
        (kernel.time_share for kernel in found.kernels), reverse=True
    )
    assert found.kernels[0].is_tunable


def test_one_plain_matmul_outweighs_another_that_a_rule_schedules(fixed_net):
    matmuls = [str(name.name_hint) for name, _ in fixed_net.fused.functions_items() if "matmul" in str(name.name_hint)]
    first = next(name for name in matmuls if "relu" in name)
    functions = dict(fixed_net.fused.functions_items())
    variable = next(variable for variable in functions if str(variable.name_hint) == first)
    functions[variable] = fixed_net.unscheduled[first]
    found = unscheduled(replace(fixed_net, fused=tvm.IRModule(functions), ruled=fixed_net.ruled - {first}), NATIVE)
    assert [kernel.name for kernel in found.kernels] == [first]
    assert found.time_share > 0.9


def test_a_schedule_without_code_is_named_as_the_reason(fixed_net):
    reason = "there is no code for its schedule by rules: why"
    names = [str(name.name_hint) for name, _ in fixed_net.fused.functions_items()]
    found = unscheduled(replace(plain(fixed_net), refused=dict.fromkeys(names, reason)), NATIVE)
    assert {kernel.reason for kernel in found.kernels} == {reason}


def test_a_dynamic_dimension_is_the_reason_where_a_rule_takes_the_kernel_once_it_is_fixed(dynamic_net):
    (kernel,) = unscheduled(plain(dynamic_net), NATIVE).kernels
    assert (kernel.reason, kernel.dims) == ("its dimension 'length' is dynamic", ["length"])
    assert not kernel.is_tunable


def test_runtime_functions_are_listed_by_name():
    module = graph(lambda x: op.topk(x, 4, axis=-1, ret_type="values"), ((64, 4096), F32))
    (kernel,) = unscheduled(lowered(module), NATIVE).kernels
    assert kernel.reason == "TVM's runtime computes it on one core (tvm.contrib.sort.topk)"
    assert (kernel.dims, kernel.is_tunable) == ([], False)


def test_a_layout_that_could_not_be_converted_is_noted(fixed_net):
    marked = fixed_net.unscheduled.with_attr(LAYOUT_FAILURE, "no layout for it")
    assert unscheduled(replace(fixed_net, unscheduled=marked), NATIVE).layout_failure == "no layout for it"


def test_the_note_of_a_failed_layout_survives_lowering():
    module = graph(lambda x: op.nn.relu(x), ((64, 64), F32)).with_attr(LAYOUT_FAILURE, "why")
    assert unscheduled(lowered(module), NATIVE).layout_failure == "why"


def test_a_long_reduction_that_only_tvm_s_general_rule_takes_has_no_schedule_of_a_gpu():
    opencl = tvm.target.Target({"kind": "opencl", "max_num_threads": 256, "host": {"kind": "llvm"}})
    module = graph(lambda x: op.prod(x, axis=0), ((512, 4096), F32))
    (kernel,) = unscheduled(lowered(module, opencl), opencl).kernels
    assert kernel.name == "prod"
    assert kernel.reason.endswith("each thread reduces all values of a result by itself")


def test_bounds_give_a_dimension_their_middle_and_others_a_typical_size():
    n, t, c = map(dimension, "ntc")
    module = graph(lambda x: op.nn.relu(x), ((n, t, c), F32))
    main = module["main"].with_attr(LOWER, {"t": 2, "c": 1000}).with_attr(UPPER, {"t": 10})
    module.update_func(module.get_global_var("main"), main)
    sizes = representative_sizes(module)
    assert sizes == {"n": TYPICAL_EXTENT, "t": 6, "c": 1000}
    assert evaluate_extent(t * 4 + 1, sizes) == 25
    assert evaluate_extent(dimension("data"), sizes) == 1


def test_fixing_a_dimension_leaves_loops_of_the_same_name_alone(dynamic_net):
    (function,) = [f for _, f in dynamic_net.unscheduled.functions_items() if isinstance(f, tvm.tirx.PrimFunc)]
    made = fix_dimensions(function, {"length": 7, "k": 3}, ["length", "k"])
    assert [int(extent) for extent in made.params[0].ty.shape] == [7, 256]
    (part,) = kernel_parts(made, {})
    assert (part.operations, part.reduction_length, part.is_plain) == (2 * 7 * 256 * 512, 256, True)
