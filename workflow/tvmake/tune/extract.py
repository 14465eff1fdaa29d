"""Extract the kernels of a fused module."""

from collections import Counter
from collections.abc import Mapping, Sequence

import tvm

from tvmake.artifact.size_points import SizePoint, merge_points
from tvmake.artifact.tasks import Task
from tvmake.codegen.size_points import Values, kernel_points, network_points
from tvmake.codegen.tunable import mean_flops, why_not_tuned
from tvmake.ir.expressions import operator_name
from tvmake.records.workload import Workload, workload


def extract(
    fused: "tvm.IRModule", target: "tvm.target.Target", values: Values | None = None
) -> tuple[list[Task], list[Workload]]:
    """Return the kernels of a fused module, the most expensive first, and the workloads worth tuning.

    Args:
        values: sizes of dynamic dimensions to tune for (:func:`tvmake.codegen.size_points.network_points`).
    """
    calls = _calls(fused)
    workloads: dict[str, Workload] = {}
    names: dict[str, list[str]] = {}
    for variable, function in fused.functions_items():
        if isinstance(function, tvm.tirx.PrimFunc):
            entry = workload(function, target)
            workloads.setdefault(entry.key, entry)
            names.setdefault(entry.key, []).append(str(variable.name_hint))
    points_of_names = kernel_points(fused, network_points(fused, values))
    tasks = []
    for key, entry in workloads.items():
        points = _points(names[key], points_of_names)
        main = entry.module["main"]
        tasks.append(
            Task(
                workload=key,
                names=sorted(names[key]),
                calls=sum(calls[name] for name in names[key]),
                flops=mean_flops(main, points),
                trivial=why_not_tuned(main, target, points),
                points=points,
            )
        )
    tasks.sort(key=lambda task: (-task.calls * task.flops, task.workload))
    return tasks, [workloads[task.workload] for task in tasks if task.trivial is None]


def _points(names: Sequence[str], points: Mapping[str, tuple[SizePoint, ...]]) -> tuple[SizePoint, ...]:
    """The points of a kernel with several names; none if one has none."""
    listed = [points.get(name, ()) for name in names]
    return merge_points(point for entry in listed for point in entry) if all(listed) else ()


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
