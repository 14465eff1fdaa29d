"""Weights in 4 and 8 bits: small in the package, accurate, and never copied to float at run time."""

from collections.abc import Callable

import numpy as np
import pytest
import tvm
import tvm_ffi
from onnx import helper

from tests.decibels import decibels
from tests.frontend.onnx import models as onnx_models
from tests.targets.opencl.test_packages import first_device
from tests.transform.nets import Compiled, Transformed, calls, classifier, imported, run, transformed
from tests.unoptimised import UNCHECKED
from tvmake.codegen.link import generate
from tvmake.codegen.lowering import Lowered, lower
from tvmake.codegen.options import BuildOptions
from tvmake.codegen.weights import packed_weights
from tvmake.config.target import TargetConfig
from tvmake.frontend.imported import ImportedModel
from tvmake.quantize.integers.coverage import COVERAGE
from tvmake.quantize.precision import PrecisionConfig
from tvmake.quantize.weights.narrow import integers_of
from tvmake.targets.resolve import tvm_target

INPUTS, HIDDEN = 128, 160

PRECISIONS = {
    "int8": PrecisionConfig(base="int8_weights"),
    "int8 in groups": PrecisionConfig(base="int8_weights", group=32),
    "int4": PrecisionConfig(base="int4_weights", group=32),
}


def mlp(rows: int | str = 3, inputs: int = INPUTS) -> ImportedModel:
    constants = {"a": onnx_models.random(inputs, HIDDEN, seed=1), "b": onnx_models.random(HIDDEN, 33, seed=2)}
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "b"], ["y"]),
    ]
    return imported(onnx_models.model(nodes, {"x": (onnx_models.FLOAT, [rows, inputs])}, ["y"], constants))


def lowered(made: Transformed, target: str) -> tuple[Lowered, "tvm.target.Target"]:
    config = TargetConfig(kind="llvm") if target == "llvm" else TargetConfig(tag=target)
    resolved = tvm_target(config, "targets.t")
    return lower(made[0], resolved, (), BuildOptions(), 1), resolved


def code(made: Transformed, target: str) -> Callable[[np.ndarray], np.ndarray]:
    """Compile for a target, with its preferred weights."""
    device = tvm.cpu() if target == "llvm" else first_device()
    low, resolved = lowered(made, target)
    names = [str(parameter.name) for parameter in low.fused["main"].params[1:]]
    weights = packed_weights(made[1], low.packings, names) if low.packings else made[1]
    machine = tvm.relax.VirtualMachine(generate(low.final, resolved, UNCHECKED, "targets.t"), device)
    tensors = [tvm.runtime.tensor(weights[name].numpy(), device) for name in names]
    return lambda value: machine["main"](tvm.runtime.tensor(value, device), *tensors).numpy()


def computed(made: Transformed, target: str, value: np.ndarray) -> np.ndarray:
    """Run the code for a target."""
    return code(made, target)(value)


@pytest.mark.parametrize("name", PRECISIONS)
@pytest.mark.parametrize("target", ["llvm", "adreno-730-buffer", "adreno-730-texture"])
def test_code_for_cpus_and_gpus_dequantises_correctly(name, target):
    made, value = transformed(mlp(), PRECISIONS[name]), onnx_models.random(3, INPUTS, seed=9)
    assert decibels(run(made, value), computed(made, target, value)) > 100


@pytest.mark.parametrize("rows", [1, "n"])
@pytest.mark.parametrize("target", ["llvm", "adreno-730-buffer"])
def test_one_row_and_any_number_of_rows_are_multiplied(rows, target):
    made = transformed(mlp(rows, inputs=100), PRECISIONS["int4"])  # not a multiple of what shares bytes and scales
    value = onnx_models.random(1 if rows == 1 else 5, 100, seed=9)
    assert decibels(run(made, value), computed(made, target, value)) > 100


@pytest.mark.parametrize("name", ["int8 in groups", "int4"])
def test_cpus_multiply_any_number_of_rows_by_rules_and_keep_no_weights_in_float(name):
    made = transformed(mlp("n", inputs=100), PRECISIONS[name])
    expected, run_code = Compiled(made), code(made, "llvm")
    for rows in (1, 2, 5, 12, 13, 14, 15, 29):
        value = onnx_models.random(rows, 100, seed=rows)
        assert decibels(expected(value), run_code(value)) > 100
    low, _ = lowered(made, "llvm")
    kernels = {str(name.name_hint) for name, each in low.fused.functions_items() if isinstance(each, tvm.tirx.PrimFunc)}
    assert low.ruled == kernels
    assert max(fixed_elements(low), default=0) <= 16 * HIDDEN  # a tile's results, of at most 16 rows


def fixed_elements(low: Lowered) -> list[int]:
    """Elements of each buffer that a kernel allocates, for dynamic dimensions of one."""
    buffers: list[tvm.tirx.Buffer] = []
    for function in low.final.functions.values():
        if isinstance(function, tvm.tirx.PrimFunc):
            tvm_ffi.structural_walk(
                function.body, (tvm.s_tir.SBlock, lambda block: buffers.extend(block.alloc_buffers))
            )
    shapes = [[int(extent) for extent in buffer.shape if isinstance(extent, tvm.tirx.IntImm)] for buffer in buffers]
    return [int(np.prod(shape)) for shape in shapes]


@pytest.mark.parametrize(("name", "least"), [("int8", 38.0), ("int8 in groups", 40.0), ("int4", 17.0)])
def test_results_are_as_close_to_the_floats_as_the_bits_allow(name, least):
    value = onnx_models.random(3, INPUTS, seed=9)
    expected = run(transformed(mlp()), value)
    assert decibels(expected, run(transformed(mlp(), PRECISIONS[name]), value)) > least


@pytest.mark.parametrize(("name", "share"), [("int8", 0.26), ("int8 in groups", 0.29), ("int4", 0.16)])
def test_weights_take_a_quarter_or_about_a_seventh_of_the_floats(name, share):
    floats, small = (
        sum(value.numpy().nbytes for value in made[1].values())
        for made in (transformed(mlp()), transformed(mlp(), PRECISIONS[name]))
    )
    assert 0 < small <= share * floats


@pytest.mark.parametrize("name", PRECISIONS)
@pytest.mark.parametrize("target", ["llvm", "adreno-730-buffer"])
def test_no_kernel_keeps_the_weights_in_float(name, target):
    made = transformed(mlp(), PRECISIONS[name])
    sizes: list[int] = []
    kernels: list[str] = []

    def note(block):
        kernels.append(str(block.name_hint))
        for buffer in block.alloc_buffers:
            if str(buffer.scope()) == "global":
                sizes.append(int(np.prod([int(extent) for extent in buffer.ty.shape])))

    for _, function in lowered(made, target)[0].final.functions_items():
        if isinstance(function, tvm.tirx.PrimFunc):
            tvm_ffi.structural_walk(function.body, (tvm.s_tir.SBlock, note))
    assert any("product" in name for name in kernels) and max(sizes, default=0) <= 3 * HIDDEN  # activations


@pytest.mark.parametrize("activations", ["float16", "float16_acc32"])
def test_activations_may_be_in_half_precision(activations):
    made = transformed(mlp(), PrecisionConfig(base="int8_weights", activations=activations))
    value = onnx_models.random(3, INPUTS, seed=9)
    (kernel,) = {str(call.args[1].fields[0].ty.dtype) for call in calls(made[0], "call_tir")}
    assert kernel == "float16"
    assert decibels(run(transformed(mlp()), value), computed(made, "llvm", value)) > 38


def test_integers_of_8_bits_are_off_by_half_a_step_at_most():
    weight = onnx_models.random(70, 9, seed=5)
    found = integers_of(weight, 8, 32)
    assert found.values.dtype == np.int8 and found.scales.shape == (3, 9)
    spread = np.repeat(found.scales, 32, axis=0)[:70]
    assert (np.abs(found.values * spread - weight) <= np.abs(spread) / 2 * 1.001).all()


def test_two_integers_of_4_bits_share_a_byte():
    weight = onnx_models.random(64, 9, seed=5)
    found = integers_of(weight, 4, 64)
    assert found.values.dtype == np.uint8 and found.values.size == weight.size // 2
    low, high = found.values & 15, found.values >> 4
    integers = np.stack([low, high], axis=1).reshape(64, 9).astype(np.float32) - 8
    assert integers.min() == -8  # the largest number takes the one that there is more of
    assert decibels(weight, integers * found.scales) > 17


def test_weights_of_zeros_and_of_tiny_numbers_stay_numbers():
    for value in (0.0, 1e-44, -1e-38):
        for bits in (4, 8):
            found = integers_of(np.full((40, 2), value, np.float32), bits, 32)
            assert np.isfinite(found.scales).all() and (found.scales != 0).all()


def test_other_operators_than_matmul_are_reported_with_a_reason():
    line = str(transformed(classifier(), PRECISIONS["int8"])[0].attrs[COVERAGE])
    assert line.startswith("weights: those of 1 of 3 convolutions and matmuls are stored in 8 bits; kept in float: ")
    assert line.count("nn.conv2d '") == 2 and "because it is not a matmul" in line


def test_a_network_without_suitable_weights_is_built_with_a_note():
    never = PrecisionConfig(base="int4_weights", never=["matmul"])
    made = transformed(mlp(), never)
    assert str(made[0].attrs[COVERAGE]).startswith("weights: those of 0 of ")
    assert {value.numpy().dtype for value in made[1].values()} == {np.dtype("float32")}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"base": "float32", "group": 32}, "group is for base int8_weights or int4_weights"),
        ({"base": "int8", "activations": "float16"}, "activations is for base int8_weights or int4_weights"),
        ({"base": "int4_weights", "always": ["matmul"]}, "has no always and follow"),
        ({"base": "int4_weights", "group": 48}, "32, 64 or 128"),
    ],
)
def test_incompatible_keys_are_refused(keys, message):
    with pytest.raises(ValueError, match=message):
        PrecisionConfig(**keys)
