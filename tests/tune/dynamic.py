"""Kernels with dynamic dimensions, and their rule's schedules."""

import json
from collections.abc import Iterator
from typing import Any

import tvm

from tests.tune.graphs import CPU, kernel, kernel_workload
from tvmake.artifact.size_points import SizePoint
from tvmake.records.workload import Workload
from tvmake.tune.search.starts import further_starts, starts_by_rule

op = tvm.relax.op
F32 = "float32"


def dim(name: str) -> Any:
    """A dynamic dimension."""
    return tvm.tirx.Var(name, "int64")


def dense(inner: int = 48, columns: int = 40) -> Workload:
    """A matmul of ``n`` rows with weights, and an activation."""
    inputs = (((dim("n"), inner), F32), ((inner, columns), F32))
    return kernel_workload(lambda x, w: op.nn.relu(op.matmul(x, w)), *inputs, weights=True)


def token_dense() -> Workload:
    """A matmul of a batch of sequences with weights: the rows of both dimensions are merged."""
    inputs = (((dim("batch"), dim("length"), 32), F32), ((32, 48), F32))
    return kernel_workload(lambda x, w: op.matmul(x, w), *inputs, weights=True)


def depthwise() -> Workload:
    """A depthwise convolution of images with a dynamic height and width."""

    def convolution(x: Any, w: Any) -> Any:
        options = {"data_layout": "NHWC", "kernel_layout": "OHWI", "padding": 1, "groups": 32}
        return op.nn.relu(op.nn.conv2d(x, w, **options))

    inputs = (((1, dim("height"), dim("width"), 32), F32), ((32, 3, 3, 1), F32))
    return kernel_workload(convolution, *inputs, weights=True)


def relu_kernel(target: "tvm.target.Target" = CPU) -> "tvm.tirx.PrimFunc":
    """An element-wise kernel of ``n`` rows."""
    return kernel(lambda x: op.nn.relu(x), ((dim("n"), 512), F32), target=target)


def points(*sizes: dict[str, int]) -> tuple[SizePoint, ...]:
    """Points with equal weights."""
    return tuple(SizePoint(sizes=one, weight=1 / len(sizes)) for one in sizes)


def rule_traces(own: Workload) -> Iterator[Any]:
    """The distinct traces of the rule's schedules, the best estimate first, as a store keeps them."""
    seen = set()
    for start in (*starts_by_rule(own), *further_starts(own)):
        text = json.dumps(start.trace)
        if text not in seen:
            seen.add(text)
            yield json.loads(text)
