"""tvmake's rules schedule the GPU kernels that they suit, and leave the others to TVM's."""

from typing import Any

import tvm
import tvm_ffi

from tests.targets.adreno_texture.nets import conv, op, target, tensor
from tests.tune.graphs import graph
from tvmake.codegen.lowering import lower
from tvmake.codegen.options import PassOptions
from tvmake.targets.backends import backend_of
from tvmake.targets.kernels.scheduled_kernel import is_scheduled

INPUTS = tensor(1, 16, 14, 14), tensor(32, 16, 3, 3)
NVIDIA = "opencl-nvidia"


def net(data: Any, weight: Any) -> Any:
    return op.nn.softmax(op.nn.relu(conv(data, weight)), 1)


def unscheduled() -> Any:
    return lower(graph(net, *INPUTS), target(NVIDIA), [], PassOptions(), 1, rules=False).fused


def apply_rules(module: Any, *refused: str) -> Any:
    return backend_of(target(NVIDIA)).schedule_kernels(module, target(NVIDIA), refused, by_rules=True)[0]


def scheduled(module: Any) -> list[str]:
    return [
        str(name.name_hint)
        for name, one in module.functions_items()
        if isinstance(one, tvm.tirx.PrimFunc) and is_scheduled(one)
    ]


def test_what_a_rule_suits_is_scheduled_and_the_rest_is_left():
    assert scheduled(unscheduled()) == []
    assert scheduled(apply_rules(unscheduled())) == ["fused_conv2d_relu"]


def test_refused_kernels_are_left():
    assert scheduled(apply_rules(unscheduled(), "fused_conv2d_relu")) == []


def test_schedules_are_the_same_each_time():
    first, second = (apply_rules(unscheduled())["fused_conv2d_relu"] for _ in range(2))
    assert tvm_ffi.structural_equal(first, second)
