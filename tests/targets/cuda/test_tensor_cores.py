"""Matmuls of float16 on tensor cores. GPU results are tested separately: docs/reference/performance.md says when."""

import json
import re
import subprocess
import sys
from typing import Any

import pytest
import tvm

from tests.targets.adreno_texture.nets import conv, executable, lowered, modules, op, target, tensor
from tests.targets.gpu.nets import kernels_by_rule
from tvmake.targets.cuda.backend import FURTHER, CudaBackend
from tvmake.targets.cuda.fragment_tiles import FragmentProduct, FragmentTile, best_tiles, cycles
from tvmake.targets.cuda.tensor_cores import TensorCores
from tvmake.targets.gpu.product_form import product_of
from tvmake.tune.trace import trace_json

H100 = "cuda-sm90"


def half(*shape: int) -> Any:
    return tensor(*shape, dtype="float16")


def sums_in_single(data: Any, weight: Any) -> Any:
    return op.matmul(data, weight, out_dtype="float32")


def gelu(data: Any, weight: Any, bias: Any) -> Any:
    return op.nn.gelu(op.add(op.matmul(data, weight), bias))


def residual(data: Any, weight: Any) -> Any:
    return op.nn.relu(op.add(conv(data, weight), data))


KERNELS = {
    "a vision transformer's": (op.matmul, half(197, 384), half(384, 1152)),
    "sums in float32": (sums_in_single, half(197, 384), half(384, 1152)),
    "transposed weights": (lambda x, w: op.matmul(x, op.permute_dims(w)), half(197, 384), half(1000, 384)),
    "heads": (op.matmul, half(6, 197, 64), half(6, 64, 197)),
    "odd extents": (op.matmul, half(37, 61), half(61, 99)),
    "what follows": (gelu, half(197, 384), half(384, 1536), half(1536)),
    "windows": (conv, half(1, 64, 28, 28), half(64, 64, 3, 3)),
    "a window of one": (lambda x, w: conv(x, w, padding=0), half(1, 64, 56, 56), half(256, 64, 1, 1)),
    "rows of seven": (lambda x, w: conv(x, w, padding=0), half(1, 512, 7, 7), half(512, 512, 1, 1)),
    "a residual": (residual, half(1, 64, 28, 28), half(64, 64, 3, 3)),
    "steps and a batch": (lambda x, w: conv(x, w, strides=2), half(2, 64, 28, 28), half(96, 64, 3, 3)),
}


def source(*network: Any) -> str:
    """The code of a network's kernels."""
    built = executable(lowered(*network, name=H100), H100).mod
    return "".join(module.inspect_source("") for module in modules(built) if module.kind == "cuda")


def arguments(code: str, function: str) -> list[int]:
    """Number of arguments of each call of a function."""
    found = []
    for call in re.finditer(rf"\b{function}\(", code):
        depth, count = 1, 1
        for character in code[call.end() :]:
            depth += (character in "([{") - (character in ")]}")
            count += character == "," and depth == 1
            if not depth:
                break
        found.append(count)
    return found


@pytest.mark.parametrize("what", KERNELS)
def test_matmuls_in_half_precision_run_on_tensor_cores(what: str):
    assert kernels_by_rule(TensorCores(), *KERNELS[what], name=H100)
    code = source(*KERNELS[what])
    assert "wmma::mma_sync" in code
    # TVM's code for such gathers of eight values does not compile.
    assert set(arguments(code, "make_uint4")) <= {1, 4}


@pytest.mark.parametrize(
    ("network", "name"),
    [
        ((op.matmul, tensor(197, 384), tensor(384, 1152)), H100),
        ((op.matmul, tensor(64, 64, dtype="int8"), tensor(64, 64, dtype="int8")), H100),
        ((op.matmul, half(4, 384), half(384, 1152)), H100),
        ((conv, half(1, 512, 4, 4), half(512, 512, 3, 3)), H100),
        ((op.matmul, half(197, 384), half(384, 1152)), "opencl-nvidia"),
    ],
    ids=["float32", "integers", "few rows", "windows of few positions and many channels", "OpenCL"],
)
def test_others_are_left_to_other_rules(network: Any, name: str):
    assert not kernels_by_rule(TensorCores(), *network, name=name)


def test_gpus_before_the_first_tensor_cores_have_none():
    kernel = next(iter(lowered(*KERNELS["heads"], name=H100).unscheduled.functions_items()))[1]
    old = tvm.target.Target({"kind": "cuda", "arch": "sm_61", "max_shared_memory_per_block": 49152})
    assert TensorCores().apply(kernel, old, False) is None


def test_tiles_keep_to_shared_memory_and_the_first_is_the_one_that_takes_least():
    product = FragmentProduct(1, 2048, 2048, 2048, 2, 2, False, 2048, (8, 8))
    most = best_tiles(product, 48 << 10)
    less = best_tiles(product, 8 << 10)
    assert 0 < len(less) < len(most)
    assert less[0] != most[0]
    # Whatever memory operands have, float32 sums are limited to static shared memory.
    single = best_tiles(FragmentProduct(1, 2048, 2048, 2048, 2, 4, False, 2048, (8, 8)), 227 << 10)
    assert all(tile.rows * tile.columns * 4 <= 48 << 10 for tile in single)
    # A matmul that fills a GPU gets large tiles, a smaller one small tiles.
    assert best_tiles(FragmentProduct(1, 64, 64, 512, 2, 2, False, 512, (8, 8)), 48 << 10)[0].rows < most[0].rows


@pytest.mark.parametrize(("channels", "positions"), [(96, 9), (128, 9), (3, 9), (96, 1)])
def test_terms_at_one_position_of_a_window_are_its_channels(channels: int, positions: int):
    side = round(positions**0.5)
    network = (lambda x, w: conv(x, w, padding=side // 2), half(1, channels, 28, 28), half(64, channels, side, side))
    found = [product_of(kernel) for _, kernel in lowered(*network, name=H100).unscheduled.functions_items()]
    (product,) = [one for one in found if one is not None]
    assert product.run == channels
    assert product.is_windowed == (positions > 1)
    assert product.shape == (1, 64, 784, channels * positions)


def test_slices_of_several_window_positions_take_longer():
    def estimate(depth: int, channels: int) -> float:
        product = FragmentProduct(1, 96, 1225, 9 * 192, 2, 2, True, channels, (1, 1))
        return cycles(FragmentTile(32, 64, 2, 4, depth), product)

    assert estimate(64, 96) > estimate(64, 192)
    assert estimate(32, 96) == estimate(32, 192)


REPLAY = """
import json, sys
import tvm
from tvmake.codegen.scheduling.light_intrinsics import light_intrinsics
target = tvm.target.Target({"kind": "cuda", "arch": "sm_90"})
light_intrinsics(target)
kernel, traces = json.load(sys.stdin)
for trace in traces:
    schedule = tvm.s_tir.Schedule(tvm.ir.load_json(kernel))
    with target:
        tvm.s_tir.Trace.apply_json_to_schedule(trace, schedule)
    print("tvm_mma_sync" in schedule.mod.script())
"""


def test_a_search_starts_from_several_tiles_and_its_records_can_be_replayed_elsewhere():
    module = lowered(*KERNELS["what follows"], name=H100).unscheduled
    kernel = next(func for _, func in module.functions_items() if isinstance(func, tvm.tirx.PrimFunc))
    backend = CudaBackend()
    schedules = [backend.schedule_by_rule(kernel, target(H100)), *backend.further_schedules(kernel, target(H100))]
    traces = [trace_json(each.trace) for each in schedules if each is not None]
    assert len({json.dumps(trace) for trace in traces}) == 1 + FURTHER
    given = json.dumps([tvm.ir.save_json(tvm.IRModule({"main": kernel})), traces])
    done = subprocess.run([sys.executable, "-c", REPLAY], input=given, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True"] * (1 + FURTHER), done.stderr
