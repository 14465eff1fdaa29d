"""Matmuls of float32 in TF32. GPU results are tested separately: docs/reference/performance.md says when."""

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import tvm

from tests.targets.adreno_texture.nets import conv, executable, lowered, modules, op, target, tensor
from tests.targets.cuda.test_tensor_cores import H100, REPLAY
from tests.tune.graphs import graph
from tvmake.codegen.lowering import lower
from tvmake.codegen.options import PassOptions
from tvmake.ir.attributes import TF32
from tvmake.quantize.precision import PrecisionConfig
from tvmake.targets.cuda import tf32
from tvmake.targets.cuda.backend import CudaBackend
from tvmake.targets.cuda.fragments import SIDE
from tvmake.targets.cuda.tensor_cores import TensorCores
from tvmake.targets.gpu.bound_rule import BoundRule
from tvmake.transform.precision import to_precision
from tvmake.tune.trace import trace_json

KERNELS = {
    "a vision transformer's": (op.matmul, tensor(197, 384), tensor(384, 1152)),
    "transposed weights": (lambda x, w: op.matmul(x, op.permute_dims(w)), tensor(197, 384), tensor(1000, 384)),
    "heads": (op.matmul, tensor(6, 197, 64), tensor(6, 64, 197)),
    "odd extents": (op.matmul, tensor(517, 261), tensor(261, 1299)),
    "what follows": (
        lambda x, w, b: op.nn.gelu(op.add(op.matmul(x, w), b)),
        tensor(197, 384), tensor(384, 1536), tensor(1536),
    ),
    "windows": (conv, tensor(1, 64, 56, 56), tensor(64, 64, 3, 3)),
    "a residual": (
        lambda x, w: op.nn.relu(op.add(conv(x, w), x)), tensor(1, 64, 56, 56), tensor(64, 64, 3, 3),
    ),
}  # fmt: skip


def in_tf32(*network: Any) -> Any:
    """A network with TF32, lowered for an H100."""
    return to_precision(graph(*network), PrecisionConfig(base="tf32"))


def kernel(*network: Any) -> Any:
    """The first kernel of a network that allows TF32."""
    module = lower(in_tf32(*network), target(H100), [], PassOptions(), 1).unscheduled
    return next(
        func for _, func in module.functions_items() if isinstance(func, tvm.tirx.PrimFunc) and TF32 in func.attrs
    )


@pytest.mark.parametrize("what", KERNELS)
def test_matmuls_of_float32_run_on_tensor_cores_if_the_network_allows_it(what: str):
    made = lower(in_tf32(*KERNELS[what]), target(H100), [], PassOptions(), 1)
    built = executable(made, H100).mod
    code = "".join(module.inspect_source("") for module in modules(built) if module.kind == "cuda")
    assert "tvmake_tf32_multiply(" in code.partition('extern "C"')[2]


def test_a_network_that_does_not_say_so_is_computed_in_float32():
    for _, func in lowered(*KERNELS["heads"], name=H100).unscheduled.functions_items():
        assert TF32 not in (func.attrs or {})
        assert TensorCores().apply(func, target(H100), False) is None


@pytest.mark.parametrize(("arch", "has"), [("sm_75", False), ("sm_80", True), ("sm_90a", True)])
def test_tensor_cores_multiply_float32_from_the_third_generation_on(arch: str, has: bool):
    one = tvm.target.Target({"kind": "cuda", "arch": arch, "max_shared_memory_per_block": 49152})
    assert (BoundRule(TensorCores()).apply(kernel(*KERNELS["heads"]), one, False) is not None) == has


def test_where_float32_takes_about_as_long_it_is_computed_in_float32():
    # Few results of long sums: plain arithmetic has more tiles, which share a sum.
    few = (conv, tensor(1, 512, 7, 7), tensor(512, 512, 3, 3))
    assert BoundRule(TensorCores()).apply(kernel(*few), target(H100), False) is None


def test_other_targets_do_not_hear_of_it():
    module = lower(in_tf32(*KERNELS["heads"]), target("opencl-nvidia"), [], PassOptions(), 1).unscheduled
    assert not any(TF32 in (func.attrs or {}) for _, func in module.functions_items())


def test_records_of_such_schedules_can_be_replayed_elsewhere():
    one = kernel(*KERNELS["what follows"])
    backend = CudaBackend()
    schedules = [backend.schedule_by_rule(one, target(H100)), *backend.further_schedules(one, target(H100))]
    traces = [trace_json(each.trace) for each in schedules if each is not None]
    assert len(traces) > 1
    given = json.dumps([tvm.ir.save_json(tvm.IRModule({"main": one})), traces])
    script = REPLAY.replace("tvm_mma_sync", "tvmake_tf32_multiply")
    done = subprocess.run([sys.executable, "-c", script], input=given, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True"] * len(traces), done.stderr


def numbers(formula: str, matrix: np.ndarray) -> np.ndarray:
    """A matrix's values in each thread of a warp, by a C formula for their offsets."""
    python = formula.replace("/", "//")
    memory, row = matrix.ravel(), matrix.shape[1]
    names = [
        {"group": thread // 4, "place": thread % 4, "own": own, "row": row} for thread in range(32) for own in range(8)
    ]
    return memory[[eval(python, {}, each) for each in names]].reshape(32, tf32.HELD)


def product_of_warp(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """``mma.m16n8k8`` (PTX ISA, figures of its fragments): each thread has 4 left and 2 right values."""
    rows, columns, sums = np.zeros((16, 8)), np.zeros((8, 8)), np.zeros((32, 4))
    for thread in range(32):
        group, place = divmod(thread, 4)
        rows[[group, group + 8, group, group + 8], [place, place, place + 4, place + 4]] = left[thread]
        columns[[place, place + 4], group] = right[thread]
    product = rows @ columns
    for thread in range(32):
        group, place = divmod(thread, 4)
        sums[thread] = product[[group, group, group + 8, group + 8], [2 * place, 2 * place + 1] * 2]
    return sums


@pytest.mark.parametrize("name", ["right", "columns"])
def test_each_thread_holds_what_the_instruction_multiplies(name: str):
    random = np.random.default_rng(0)
    left, right = random.normal(size=(2, SIDE, SIDE))
    lefts = numbers(tf32.PLACES["left"], left)
    rights = numbers(tf32.PLACES[name], right.T if name == "columns" else right)
    sums = np.zeros((32, tf32.HELD))
    for step in range(4):  # as in the source of the product
        deep, wide = divmod(step, 2)
        column = slice(deep * 4 + wide * 2, deep * 4 + wide * 2 + 2)
        sums[:, wide * 4 : wide * 4 + 4] += product_of_warp(lefts[:, deep * 4 : deep * 4 + 4], rights[:, column])
    np.testing.assert_allclose(sums, numbers(tf32.STORED, left @ right), rtol=1e-12)
