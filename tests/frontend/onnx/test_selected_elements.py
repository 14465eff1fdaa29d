"""Elements that the data select: results have a row for each of them, and agree with ONNX Runtime."""

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper

from tests.frontend.onnx.models import FLOAT, model, random, read, runtime, save
from tests.transform.nets import transformed
from tests.unoptimised import UNOPTIMISED
from tvmake.codegen.link import generate
from tvmake.codegen.lowering import lower
from tvmake.codegen.options import BuildOptions, PassOptions
from tvmake.device.code import checking_arguments
from tvmake.errors import InputError

node = helper.make_node

NODES = [
    node("NonZero", ["x"], ["indices"]),
    node("Shape", ["indices"], ["size"]),
    node("Transpose", ["indices"], ["rows"], perm=[1, 0]),
    node("GatherND", ["x", "rows"], ["values"]),
    node("ReduceSum", ["values", "zero"], ["sum"], keepdims=0),
    node("Compress", ["x", "mask"], ["columns"], axis=1),
    node("Compress", ["x", "mask"], ["flat"]),
    node("NonZero", ["mask"], ["numbers"]),
]


@pytest.fixture(scope="module")
def proto() -> onnx.ModelProto:
    inputs = {"x": (FLOAT, ["n", 4]), "mask": (TensorProto.BOOL, [4])}
    outputs = ["indices", "size", "values", "sum", "columns", "flat", "numbers"]
    return model(NODES, inputs, outputs, {"zero": np.array([0])})


@pytest.fixture(scope="module")
def machine(proto: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory):
    imported = read(save(tmp_path_factory.mktemp("selected") / "m.onnx", proto))
    lowered = lower(transformed(imported)[0], UNOPTIMISED, [], PassOptions(), 2, rules=False)
    return tvm.relax.VirtualMachine(generate(lowered.final, UNOPTIMISED, BuildOptions(), "targets.t"), tvm.cpu())


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("least", [-9, 0.5, 9])
def test_selected_elements_agree_with_onnx_runtime(proto, machine, rows, least):
    """From all elements down to none."""
    x = random(rows, 4)
    inputs = [np.where(x > least, x, np.float32(0)), random(4, seed=1) > least]
    outputs = machine["main"](*map(tvm.runtime.tensor, inputs))
    for output, expected in zip(outputs, runtime(proto, inputs), strict=True):
        assert output.shape == expected.shape
        np.testing.assert_allclose(output.numpy(), expected, rtol=1e-5)


def test_a_gpu_cannot_select_elements(tmp_path):
    proto = model([node("NonZero", ["x"], ["y"])], {"x": (FLOAT, [4])}, ["y"])
    target = tvm.target.Target({"kind": "cuda", "arch": "sm_90"}, host={"kind": "llvm"})
    with pytest.raises(InputError, match="elements that the data select run on CPUs only"):
        lower(read(save(tmp_path / "m.onnx", proto)).module, target, [], PassOptions(), 1)


def test_a_count_that_a_constant_contradicts_is_an_error_of_the_inputs_and_the_next_run_works(tmp_path):
    nodes = [*NODES[:1], NODES[2], node("Add", ["rows", "four"], ["y"])]
    proto = model(nodes, {"x": (FLOAT, ["n", 4])}, ["y"], {"four": np.zeros((4, 2), np.int64)})
    lowered = lower(
        transformed(read(save(tmp_path / "m.onnx", proto)))[0], UNOPTIMISED, [], PassOptions(), 2, rules=False
    )
    machine = tvm.relax.VirtualMachine(generate(lowered.final, UNOPTIMISED, BuildOptions(), "targets.t"), tvm.cpu())
    for count in (4, 3, 4):
        x = np.zeros((2, 4), np.float32)
        x.flat[:count] = 1
        if count == 4:
            assert machine["main"](tvm.runtime.tensor(x)).shape == (4, 2)
        else:
            problem = "^inputs: their values select . elements or rows where the network computes with"
            with pytest.raises(InputError, match=problem), checking_arguments():
                machine["main"](tvm.runtime.tensor(x))
