"""Extract the kernels of a fused module."""

from collections import Counter

import tvm

from tvmake.artifact.tasks import Task
from tvmake.codegen.kernel_analysis import flops, why_trivial
from tvmake.ir.expressions import operator_name
from tvmake.records.workload import Workload, workload


def extract(fused: "tvm.IRModule", target: "tvm.target.Target") -> tuple[list[Task], list[Workload]]:
    """Return the kernels of a fused module, the most expensive first, and the workloads worth tuning."""
    calls = _calls(fused)
    workloads: dict[str, Workload] = {}
    names: dict[str, list[str]] = {}
    for variable, function in fused.functions_items():
        if isinstance(function, tvm.tirx.PrimFunc):
            entry = workload(function, target)
            workloads.setdefault(entry.key, entry)
            names.setdefault(entry.key, []).append(str(variable.name_hint))
    tasks = [
        Task(
            workload=key,
            names=sorted(names[key]),
            calls=sum(calls[name] for name in names[key]),
            flops=flops(entry.module["main"]),
            trivial=why_trivial(entry.module["main"]),
        )
        for key, entry in workloads.items()
    ]
    tasks.sort(key=lambda task: (-task.calls * task.flops, task.workload))
    return tasks, [workloads[task.workload] for task in tasks if task.trivial is None]


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
