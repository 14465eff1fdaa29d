"""Weights that a source stores in few bits keep their integers in the package, with correct results."""

import numpy as np
import onnx
import pytest
import torch
import tvm
from onnx import TensorProto, helper
from torch import nn

from tests.decibels import decibels
from tests.frontend.onnx import models as onnx_models
from tests.quantize.weights.test_holding import computed
from tests.transform.nets import Transformed, imported, run, transformed
from tests.tune.graphs import graph
from tvmake.codegen.lowering import lower
from tvmake.codegen.options import PassOptions
from tvmake.codegen.weights import packed_weights
from tvmake.config.target import TargetConfig
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.importer import read
from tvmake.quantize.integers.coverage import COVERAGE
from tvmake.quantize.precision import PrecisionConfig
from tvmake.quantize.source.weights import source_weights
from tvmake.targets.resolve import tvm_target

ROWS, INNER, OUTER = 3, 96, 64


BLOCK = 32


def drawn(
    inputs: int, outputs: int, bits: int, has_zeros: bool, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Integers from 0 on [outputs, inputs], and scales and zero points [outputs, blocks]."""
    draw = np.random.default_rng(seed)
    blocks = inputs // BLOCK
    zeros = draw.integers(1, 2**bits, (outputs, blocks)) if has_zeros else np.full((outputs, blocks), 2 ** (bits - 1))
    scales = draw.uniform(0.01, 0.02, (outputs, blocks)).astype(np.float32)
    return draw.integers(0, 2**bits, (outputs, inputs)), scales, zeros


def product(x: np.ndarray, integers: np.ndarray, scales: np.ndarray, zeros: np.ndarray) -> np.ndarray:
    """The expected output; ONNX Runtime rounds activations to 8 bits if it expects this to be faster."""
    spread = [np.repeat(part, BLOCK, axis=1).astype(np.float64) for part in (scales, zeros)]
    return x @ ((integers - spread[1]) * spread[0]).T


def expected(bits: int, has_zeros: bool) -> np.ndarray:
    """Shapes of both networks below."""
    hidden = product(X.astype(np.float64), *drawn(INNER, OUTER, bits, has_zeros, 0))
    return product(hidden, *drawn(OUTER, 80, bits, has_zeros, 1))


def packed(integers: np.ndarray, bits: int) -> np.ndarray:
    """Two integers of 4 bits in a byte, the first in its lower half."""
    if bits == 8:
        return integers.astype(np.uint8)
    filled = np.pad(integers, [(0, 0)] * (integers.ndim - 1) + [(0, integers.shape[-1] % 2)])
    return (filled[..., ::2] | filled[..., 1::2] << 4).astype(np.uint8)


def in_blocks(bits: int, has_zeros: bool) -> onnx.ModelProto:
    """Two products with ``MatMulNBits``, ``x`` [3, 96] to ``y`` [3, 80]."""
    nodes, constants = [], {}
    for name, x, y, inputs, outputs in (("a", "x", "h", INNER, OUTER), ("b", "h", "y", OUTER, 80)):
        integers, scales, zeros = drawn(inputs, outputs, bits, has_zeros, int(name == "b"))
        constants[name] = packed(integers, bits).reshape(outputs, inputs // BLOCK, BLOCK * bits // 8)
        constants[f"{name}_scale"] = scales.reshape(-1)
        given = [name, f"{name}_scale"]
        if has_zeros:
            constants[f"{name}_zero"] = packed(zeros, bits).reshape(-1)
            given.append(f"{name}_zero")
        options = {"K": inputs, "N": outputs, "bits": bits, "block_size": BLOCK}
        nodes.append(helper.make_node("MatMulNBits", [x, *given], [y], domain="com.microsoft", **options))
    inputs = {"x": (onnx_models.FLOAT, [ROWS, INNER])}
    return onnx_models.model(nodes, inputs, ["y"], constants, domains=["com.microsoft"])


def dequantised_in_blocks(has_zeros: bool) -> onnx.ModelProto:
    """The same network in ONNX's own operators, with 4-bit integers."""
    nodes, given = [], []
    constants = {}
    for name, x, y, inputs, outputs in (("a", "x", "h", INNER, OUTER), ("b", "h", "y", OUTER, 80)):
        integers, constants[f"{name}_scale"], zeros = drawn(inputs, outputs, 4, has_zeros, int(name == "b"))
        for part, values in ((name, integers), (f"{name}_zero", zeros)):
            given.append(helper.make_tensor(part, TensorProto.UINT4, values.shape, values.reshape(-1).tolist()))
        read = [name, f"{name}_scale", f"{name}_zero"]
        nodes += [
            helper.make_node("DequantizeLinear", read, [f"{name}_real"], axis=1, block_size=BLOCK),
            helper.make_node("Transpose", [f"{name}_real"], [f"{name}_turned"], perm=[1, 0]),
            helper.make_node("MatMul", [x, f"{name}_turned"], [y]),
        ]
    model = onnx_models.model(nodes, {"x": (onnx_models.FLOAT, [ROWS, INNER])}, ["y"], constants, opset=21)
    model.graph.initializer.extend(given)
    return model


def weight_bytes(made: Transformed) -> int:
    return sum(value.numpy().nbytes for value in made[1].values())


X = onnx_models.random(ROWS, INNER, seed=5)


def check(
    model: onnx.ModelProto, wanted: np.ndarray, share: float, precision: str = "float32", tolerance: float = 2e-5
) -> str:
    """Check a package's output and the size of its weights; returns its coverage line."""
    made = transformed(imported(model), PrecisionConfig(base=precision))
    np.testing.assert_allclose(run(made, X), wanted, rtol=0, atol=tolerance * float(np.abs(wanted).max()))
    assert weight_bytes(made) <= share * 4 * (INNER * OUTER + OUTER * 80)
    return str(made[0].attrs[COVERAGE])


@pytest.mark.parametrize(
    ("bits", "has_zeros", "share"), [(4, False, 0.16), (4, True, 0.17), (8, False, 0.3), (8, True, 0.3)]
)
def test_blocks_of_weights_keep_their_integers(bits, has_zeros, share):
    assert "weights: those of 2 products stay the source's integers" in check(
        in_blocks(bits, has_zeros), expected(bits, has_zeros), share
    )


@pytest.mark.parametrize("has_zeros", [False, True])
def test_blocks_that_onnx_dequantises_keep_their_integers(has_zeros):
    assert "weights: those of 2 products stay" in check(dequantised_in_blocks(has_zeros), expected(4, has_zeros), 0.17)


@pytest.mark.parametrize("target", ["llvm", "adreno-730-buffer"])
def test_kernels_for_cpus_and_gpus_dequantise_correctly(target):
    made = transformed(imported(in_blocks(4, True)))
    assert decibels(computed(made, target, X), expected(4, True)) > 100


def test_a_float16_network_keeps_the_sources_integers():
    check(in_blocks(4, True), expected(4, True), 0.17, "float16", tolerance=5e-3)


def test_a_precision_that_rounds_weights_keeps_the_sources_integers():
    line = check(in_blocks(4, True), expected(4, True), 0.17, "int8_weights")
    assert line.endswith("2 of 2 convolutions and matmuls are stored in 8 bits; 2 of them stay the source's integers")


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("is_transposed", [False, True])
def test_channels_with_scales_and_zero_points_keep_their_integers(dtype, is_transposed):
    draw = np.random.default_rng(3)
    bounds = np.iinfo(dtype)
    shape, axis = ((OUTER, INNER), 0) if is_transposed else ((INNER, OUTER), 1)
    constants = {
        "w": draw.integers(bounds.min, bounds.max + 1, shape).astype(dtype),
        "scale": draw.uniform(0.001, 0.01, OUTER).astype(np.float32),
        "zero": draw.integers(bounds.min, bounds.max + 1, OUTER).astype(dtype),
        "b": onnx_models.random(OUTER, 80, seed=2),
    }
    nodes = [helper.make_node("DequantizeLinear", ["w", "scale", "zero"], ["r"], axis=axis)]
    nodes += [helper.make_node("Transpose", ["r"], ["m"], perm=[1, 0])] if is_transposed else []
    nodes += [
        helper.make_node("MatMul", ["x", "m" if is_transposed else "r"], ["h"]),
        helper.make_node("MatMul", ["h", "b"], ["y"]),
    ]
    model = onnx_models.model(nodes, {"x": (onnx_models.FLOAT, [ROWS, INNER])}, ["y"], constants)
    floats = 4 * OUTER * 80
    by_column = constants["w"].T if is_transposed else constants["w"]
    real = (by_column.astype(np.float64) - constants["zero"]) * constants["scale"]
    share = (floats + 1.1 * INNER * OUTER) / (floats + 4 * INNER * OUTER)
    check(model, X @ real @ constants["b"], share)


class Held(nn.Module):
    """A layer with weights in integers, in the form of torchao: channels or blocks with scales and zero points."""

    def __init__(self, blocks: int):
        super().__init__()
        draw = np.random.default_rng(blocks)
        self.register_buffer("integers", torch.from_numpy(draw.integers(-8, 8, (OUTER, INNER)).astype(np.int8)))
        self.register_buffer("scale", torch.from_numpy(draw.uniform(0.01, 0.02, (OUTER, blocks, 1)).astype(np.float32)))
        self.register_buffer("zero", torch.from_numpy(draw.integers(-8, 8, (OUTER, blocks, 1)).astype(np.int8)))

    def real(self) -> torch.Tensor:
        """The dequantised weights."""
        blocks = self.integers.reshape(OUTER, self.scale.shape[1], -1)
        return ((blocks.float() - self.zero.float()) * self.scale).reshape(OUTER, INNER)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The product."""
        return x @ self.real().T


@pytest.mark.parametrize("blocks", [1, 3])
def test_weights_that_a_program_dequantises_stay_integers(blocks):
    net = Held(blocks)
    made = transformed(read(torch.export.export(net, (torch.from_numpy(X),)), ImportOptions(source="net")))
    wanted = net(torch.from_numpy(X)).numpy()
    np.testing.assert_allclose(run(made, X), wanted, rtol=0, atol=2e-5 * float(np.abs(wanted).max()))
    assert weight_bytes(made) <= 0.17 * 4 * INNER * OUTER


@pytest.mark.parametrize("kind", [TensorProto.INT4, TensorProto.UINT4, TensorProto.UINT8])
def test_rows_of_tables_keep_their_integers(kind):
    draw = np.random.default_rng(4)
    low, high = {TensorProto.INT4: (-8, 8), TensorProto.UINT4: (0, 16), TensorProto.UINT8: (0, 256)}[kind]
    table = draw.integers(low, high, (200, 64))
    held = helper.make_tensor("w", kind, table.shape, table.reshape(-1).tolist())
    zeros = draw.integers(low + 2, high - 2, (200, 2)) if kind != TensorProto.UINT8 else np.full((200, 2), 128)
    model = onnx_models.model(
        [
            helper.make_node("DequantizeLinear", ["w", "scale", "zero"], ["r"], axis=1, block_size=32),
            helper.make_node("Gather", ["r", "i"], ["y"], axis=0),
        ],
        {"i": (TensorProto.INT64, [2, 3])},
        ["y"],
        {"scale": draw.uniform(0.001, 0.01, (200, 2)).astype(np.float32)},
        opset=21,
    )
    model.graph.initializer.extend([held, helper.make_tensor("zero", kind, (200, 2), zeros.reshape(-1).tolist())])
    places = np.array([[0, 7, 199], [7, 31, 0]])
    made = transformed(imported(model))
    np.testing.assert_allclose(run(made, places), onnx_models.runtime(model, [places])[0], rtol=1e-6)
    assert weight_bytes(made) <= 1.2 * table.size
    assert "1 table stay the source's integers" in str(made[0].attrs[COVERAGE])


def test_never_keeps_source_weights_in_float():
    precision = PrecisionConfig(base="int8_weights", never=["matmul"])
    made = transformed(imported(in_blocks(4, False)), precision)
    assert {str(value.dtype) for value in made[1].values()} == {"float32"}


CONVOLUTIONS = {
    "grouped": ("Conv", [1, 32, 9, 9], [64, 16, 3, 3], {"pads": [1, 1, 1, 1], "group": 2}, 0),
    "transposed": ("ConvTranspose", [1, 32, 9, 9], [32, 16, 4, 4], {"pads": [1, 1, 1, 1], "strides": [2, 2]}, 1),
    "of a sequence": ("Conv", [1, 32, 40], [64, 32, 5], {"pads": [2, 2]}, 0),
    "matrices, with a scale for each input": ("MatMul", [4, 3, 32], [4, 32, 40], {}, 1),
}


def wide_steps(kind: str, dtype: type) -> onnx.ModelProto:
    """A product of activations of 16 bits, or of floats, and weights of 8: ``x`` to ``y``."""
    operator, shape, weight, attributes, axis = CONVOLUTIONS[kind]
    draw = np.random.default_rng(5)
    size = weight[axis]
    constants = {
        "w": draw.integers(-127, 128, weight).astype(np.int8),
        "ws": draw.uniform(0.001, 0.002, size).astype(np.float32),
        "wz": draw.integers(-3, 4, size).astype(np.int8),
    }
    nodes = [helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wr"], axis=axis)]
    x = "x"
    if dtype is not np.float32:
        constants |= {"s": np.array(1e-4, np.float32), "z": np.array(5, dtype)}
        nodes.append(helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]))
        nodes.append(helper.make_node("DequantizeLinear", ["q", "s", "z"], ["r"]))
        x = "r"
    nodes.append(helper.make_node(operator, [x, "wr"], ["y"], **attributes))
    return onnx_models.model(nodes, {"x": (onnx_models.FLOAT, shape)}, ["y"], constants, opset=21)


@pytest.mark.parametrize("dtype", [np.int16, np.uint16, np.float32])
@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_weights_of_convolutions_and_stacked_matrices_stay_integers(kind, dtype):
    model = wide_steps(kind, dtype)
    made = transformed(imported(model))
    weights = {str(value.dtype): value.shape for value in made[1].values() if np.prod(value.shape) > 1000}
    assert weights.keys() == {"int8"}
    assert "weights: those of 1 product stay the source's integers" in str(made[0].attrs[COVERAGE])
    x = onnx_models.random(*CONVOLUTIONS[kind][1], seed=9)
    wanted = onnx_models.runtime(model, [x])[0]
    np.testing.assert_allclose(run(made, x), wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("kind", ["grouped", "of a sequence"])
def test_weights_of_convolutions_stay_integers_in_another_layout(kind):
    model = wide_steps(kind, np.int16)
    made = transformed(imported(model), layout="NHWC")
    assert {str(value.dtype) for value in made[1].values() if np.prod(value.shape) > 1000} == {"int8"}
    x = onnx_models.random(*CONVOLUTIONS[kind][1], seed=9)
    wanted = onnx_models.runtime(model, [x])[0]
    np.testing.assert_allclose(run(made, x), wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_a_package_has_no_float_copies_of_source_weights(kind):
    module, params = transformed(imported(wide_steps(kind, np.int16)))
    target = tvm_target(TargetConfig(kind="llvm"), "targets.t")
    lowered = lower(module, target, [], PassOptions(), 1)
    names = [str(parameter.name) for parameter in lowered.fused["main"].params[1:]]
    packed = packed_weights(params, lowered.packings, names) if lowered.packings else params
    size = np.prod(CONVOLUTIONS[kind][2])
    assert size <= sum(value.numpy().nbytes for value in packed.values()) < 1.1 * size + 1000


@pytest.mark.parametrize("equation", ["ij,kj->ik", "ij->j"])
def test_einsum_operands_are_not_source_weights(equation):
    inputs = [((ROWS, INNER), "float32"), ((OUTER, INNER), "float32")][: equation.count(",") + 1]
    module = graph(lambda *operands: tvm.relax.op.einsum(operands, equation), *inputs)
    assert source_weights(module) == {}
