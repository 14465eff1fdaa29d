"""Which kernels a fused module consists of."""

from collections import Counter

import tvm

from tvmake.artifact.tasks import Task
from tvmake.codegen.kernel_analysis import flops, why_trivial
from tvmake.ir.expressions import operator_name
from tvmake.records.workload import Workload, workload


def extract(fused: "tvm.IRModule", target: "tvm.target.Target") -> tuple[list[Task], list[Workload]]:
    """The kernels of a fused module, the heaviest first, and the workloads of those worth tuning."""
    calls = _calls(fused)
    found: dict[str, Workload] = {}
    names: dict[str, list[str]] = {}
    for variable, function in fused.functions_items():
        if isinstance(function, tvm.tirx.PrimFunc):
            one = workload(function, target)
            found.setdefault(one.key, one)
            names.setdefault(one.key, []).append(str(variable.name_hint))
    tasks = [
        Task(
            workload=key,
            names=sorted(names[key]),
            calls=sum(calls[name] for name in names[key]),
            flops=flops(one.module["main"]),
            trivial=why_trivial(one.module["main"]),
        )
        for key, one in found.items()
    ]
    tasks.sort(key=lambda task: (-task.calls * task.flops, task.workload))
    return tasks, [found[task.workload] for task in tasks if task.trivial is None]


def _calls(fused: "tvm.IRModule") -> Counter[str]:
    counted: Counter[str] = Counter()

    def visit(node: object) -> None:
        if operator_name(node).startswith("call_tir"):
            assert isinstance(node, tvm.relax.Call)
            counted[str(node.args[0].name_hint)] += 1

    for _, function in fused.functions_items():
        if isinstance(function, tvm.relax.Function):
            tvm.relax.analysis.post_order_visit(function.body, visit)
    return counted
