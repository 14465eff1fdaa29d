"""Lanes that read non-adjacent bytes get the correct bytes, in OpenCL kernels."""

import numpy as np
import pytest
import tvm

from tests.requirements import need
from tests.targets.adreno_texture.nets import BUFFER, functions, lowered, op, tensor
from tests.targets.adreno_texture.nets import target as adreno
from tvmake.config.target import TargetConfig
from tvmake.native.backend import opencl_library
from tvmake.targets.backends import kernel_pipeline
from tvmake.targets.c_dialects.unroll_vectors import unroll_gathered_bytes
from tvmake.targets.resolve import tvm_target

from tvm import te  # isort: skip

ROWS = 32


def transposition(dtype: str, lanes: int, step: int = 3) -> "tvm.IRModule":
    """A kernel that transposes, several lanes at a time."""
    data = te.placeholder((lanes, step * ROWS), dtype, name="data")
    result = te.compute((ROWS, lanes), lambda row, lane: data[lane, step * row].astype("int32"), name="result")
    return in_lanes(te.create_prim_func([data, result]), "result")


def in_lanes(kernel: "tvm.tirx.PrimFunc", block: str) -> "tvm.IRModule":
    schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": kernel}))
    rows, lane = schedule.get_loops(schedule.get_sblock(block))
    schedule.bind(rows, "threadIdx.x")
    schedule.vectorize(lane)
    return schedule.mod


def result(module: "tvm.IRModule", data: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    opencl_library()
    target = tvm_target(TargetConfig(kind="opencl"), "targets.t")
    lib = tvm.tirx.build(module, target=target, pipeline=kernel_pipeline(target))
    device = tvm.device("opencl", 0)
    found = tvm.runtime.tensor(np.zeros(shape, "int32"), device)
    lib["main"](tvm.runtime.tensor(data, device), found)
    return found.numpy()


def values(dtype: str, *shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype)


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_lanes_read_their_own_bytes(dtype: str, lanes: int):
    need("PoCL")
    data = values(dtype, lanes, 3 * ROWS)
    assert np.array_equal(result(transposition(dtype, lanes), data, (ROWS, lanes)), data[:, ::3].T)


def test_adjacent_bytes_are_read_as_vectors():
    data = te.placeholder((ROWS, 8), "int8", name="data")
    copy = te.compute((ROWS, 8), lambda row, lane: data[row, lane].astype("int32"), name="copy")
    module = in_lanes(te.create_prim_func([data, copy]), "copy")
    assert unroll_gathered_bytes(module)["main"].same_as(module["main"])


def test_a_convolution_of_bytes_to_few_channels_is_right_on_adreno():
    need("PoCL")
    opencl_library()
    shapes = [tensor(1, 32, 8, 8, dtype="uint8"), tensor(8, 32, 1, 1, dtype="int8")]

    def network(x, w):
        return op.nn.conv2d(x, w, out_dtype="int32")

    made = lowered(network, *shapes, name=BUFFER)
    module = functions(made.final)
    (name,) = (str(variable.name_hint) for variable in module.get_global_vars())
    target = adreno(BUFFER)
    lib = tvm.tirx.build(module, target=target, pipeline=kernel_pipeline(target))
    x, w = values("uint8", 1, 32, 8, 8), values("int8", 8, 32, 1, 1)
    device = tvm.device("opencl", 0)
    found = tvm.runtime.tensor(np.zeros((1, 8, 8, 8), "int32"), device)
    lib[name](tvm.runtime.tensor(x, device), tvm.runtime.tensor(w, device), found)
    wanted = np.einsum("nchw,kc->nkhw", x.astype("int32"), w[:, :, 0, 0].astype("int32"))
    assert np.array_equal(found.numpy(), wanted)
