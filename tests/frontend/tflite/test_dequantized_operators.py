"""Quantised operators, quantised weights of float operators, and files of new tools agree with LiteRT, in integers if possible."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from tests.frontend.compiled import run_compiled
from tests.frontend.tflite.models import KIND, OP, Builder, conv_options, schema
from tests.transform.nets import calls, input_dtypes, transformed
from tvmake.frontend.imported import ImportedModel
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.tflite.importer import read

SCALE, ZERO = 0.04, 5
SAME = schema.Padding.SAME
VALUES = np.random.default_rng(0).integers(-128, 128, (1, 6, 6, 4)).astype("int8")
TURNED, PADDED, LARGER, PART = [0, 3, 1, 2], [[0, 0], [1, 2], [0, 1], [0, 0]], [12, 12], [1, 3, 6, 4]

OPERATORS: dict[str, tuple[str, list[list[Any]], str, dict[str, Any], list[int]]] = {
    "axes in another order": ("TRANSPOSE", [TURNED], "TransposeOptions", {}, [1, 4, 6, 6]),
    "padding": ("PAD", [PADDED], "PadOptions", {}, [1, 9, 7, 4]),
    "the nearest pixel": ("RESIZE_NEAREST_NEIGHBOR", [LARGER], "ResizeNearestNeighborOptions", {}, [1, 12, 12, 4]),
    "a part": ("SLICE", [[0, 1, 0, 0], PART], "SliceOptions", {}, PART),
    "GELU": ("GELU", [], "GeluOptions", {}, [1, 6, 6, 4]),
    "ELU": ("ELU", [], "", {}, [1, 6, 6, 4]),
}


def drawing() -> np.random.Generator:
    return np.random.default_rng(1)


def computed(content: bytes, value: np.ndarray) -> np.ndarray:
    """The result of LiteRT's own kernels."""
    kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(model_content=content, experimental_op_resolver_type=kernels)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], value)
    interpreter.invoke()
    found: np.ndarray = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    return found


def imported(content: bytes, directory: Path) -> ImportedModel:
    path = directory / "m.tflite"
    path.write_bytes(content)
    return read(path, ImportOptions(source=str(path)))


def options_of(name: str, **values: Any) -> tuple[Any, int]:
    options = getattr(schema, f"{name}T")()
    for key, value in values.items():
        setattr(options, key, value)
    return options, getattr(KIND, name)


def steps_between(content: bytes, value: np.ndarray, directory: Path) -> np.ndarray:
    """Differences between the import's and LiteRT's results, in quantisation steps."""
    (found,) = run_compiled(imported(content, directory), [value])
    expected = computed(content, value)
    assert found.dtype == expected.dtype and found.shape == expected.shape and expected.std() > 5
    return np.abs(found.astype(int) - expected)


@pytest.mark.parametrize("name", OPERATORS)
def test_a_quantised_operator_differs_from_litert_by_one_step_at_most(name: str, tmp_path: Path):
    operator, constants, kind, values, shape = OPERATORS[name]
    builder = Builder()
    x = builder.tensor("x", VALUES.shape, "int8", scale=SCALE, zero_point=ZERO)
    others = [builder.tensor(f"c{at}", np.shape(one), "int32", one) for at, one in enumerate(constants)]
    y = builder.tensor("y", shape, "int8", scale=SCALE, zero_point=ZERO)
    builder.call(getattr(OP, operator), [x, *others], y, *(options_of(kind, **values) if kind else ()))
    assert steps_between(builder.finish([x], [y]), VALUES, tmp_path).max() <= 1


def test_padding_with_another_value_than_zero_keeps_that_value(tmp_path: Path):
    builder = Builder()
    x = builder.tensor("x", VALUES.shape, "int8", scale=SCALE, zero_point=ZERO)
    around = builder.tensor("p", (4, 2), "int32", PADDED)
    value = builder.tensor("v", (1,), "int8", [77], SCALE, ZERO)
    y = builder.tensor("y", (1, 9, 7, 4), "int8", scale=SCALE, zero_point=ZERO)
    builder.call(OP.PADV2, [x, around, value], y, *options_of("PadV2Options"))
    assert steps_between(builder.finish([x], [y]), VALUES, tmp_path).max() == 0


def depthwise(multiplier: int) -> bytes:
    builder, channels = Builder(), 4 * multiplier
    x = builder.tensor("x", VALUES.shape, "int8", scale=SCALE, zero_point=ZERO)
    scales = np.linspace(0.01, 0.03, channels)
    w = builder.tensor(
        "w", (1, 3, 3, channels), "int8", drawing().integers(-127, 128, (1, 3, 3, channels)), scales, axis=3
    )
    b = builder.tensor("b", (channels,), "int32", drawing().integers(-500, 500, channels), scales * SCALE)
    y = builder.tensor("y", (1, 6, 6, channels), "int8", scale=0.15, zero_point=-3)
    values = {"padding": SAME, "strideH": 1, "strideW": 1, "depthMultiplier": multiplier}
    dilation = {"dilationHFactor": 1, "dilationWFactor": 1}
    builder.call(OP.DEPTHWISE_CONV_2D, [x, w, b], y, *options_of("DepthwiseConv2DOptions", **values, **dilation))
    return builder.finish([x], [y])


@pytest.mark.parametrize("multiplier", [1, 3])
def test_depthwise_convolutions_with_a_scale_per_channel_are_computed_in_integers(multiplier: int, tmp_path: Path):
    content = depthwise(multiplier)
    (product,) = calls(transformed(imported(content, tmp_path))[0], "nn.conv2d")
    assert set(input_dtypes(product)) <= {"int8", "uint8"}
    assert steps_between(content, VALUES, tmp_path).max() <= 1


def test_transposed_convolutions_are_computed_in_integers(tmp_path: Path):
    builder = Builder()
    shape = builder.tensor("s", (4,), "int32", [1, 12, 12, 3])
    scales = [0.01, 0.02, 0.03]
    w = builder.tensor("w", (3, 3, 3, 4), "int8", drawing().integers(-127, 128, (3, 3, 3, 4)), scales)
    x = builder.tensor("x", VALUES.shape, "int8", scale=SCALE, zero_point=ZERO)
    y = builder.tensor("y", (1, 12, 12, 3), "int8", scale=0.1)
    builder.call(
        OP.TRANSPOSE_CONV, [shape, w, x], y, *options_of("TransposeConvOptions", padding=SAME, strideH=2, strideW=2)
    )
    (product,) = calls(transformed(imported(builder.finish([x], [y]), tmp_path))[0], "nn.conv2d")
    assert set(input_dtypes(product)) <= {"int8", "uint8"}


def test_activations_of_16_bits_differ_from_litert_by_one_step_at_most(tmp_path: Path):
    builder = Builder()
    x = builder.tensor("x", (3, 16), "int16", scale=2e-4)
    w = builder.tensor("w", (8, 16), "int8", drawing().integers(-127, 128, (8, 16)), 0.01)
    b = builder.tensor("b", (8,), "int64", drawing().integers(-(10**6), 10**6, 8), 2e-6)
    y = builder.tensor("y", (3, 8), "int16", scale=1e-3)
    builder.call(OP.FULLY_CONNECTED, [x, w, b], y, *options_of("FullyConnectedOptions"))
    value = drawing().integers(-(2**15), 2**15, (3, 16)).astype("int16")
    assert steps_between(builder.finish([x], [y]), value, tmp_path).max() <= 1


@pytest.mark.parametrize(("dtype", "largest"), [("int8", 127), ("int4", 7)])
@pytest.mark.parametrize("is_written_out", [True, False], ids=["dequantised in the file", "dynamic range"])
def test_quantised_weights_of_float_operators_are_dequantised(
    is_written_out: bool, dtype: str, largest: int, tmp_path: Path
):
    builder = Builder()
    integers, scales = (
        drawing().integers(-largest, largest + 1, (8, 3, 3, 3)),
        np.linspace(1, 3, 8).astype("float32") / largest,
    )
    x = builder.tensor("x", (1, 6, 6, 3))
    w = builder.tensor("w", integers.shape, dtype, integers, scales)
    if is_written_out:
        w = builder.call(OP.DEQUANTIZE, [w], builder.tensor("real", integers.shape))
    y = builder.tensor("y", (1, 6, 6, 8))
    b = builder.tensor("b", (8,), data=np.linspace(-1, 1, 8))
    builder.call(OP.CONV_2D, [x, w, b], y, conv_options(), KIND.Conv2DOptions)
    value = drawing().standard_normal((1, 6, 6, 3)).astype("float32")
    content = builder.finish([x], [y])
    made = imported(content, tmp_path)
    (found,) = run_compiled(made, [value])
    expected = computed(content, value)
    # With dynamic-range quantisation, LiteRT also rounds the input.
    assert made.framework_rounds != is_written_out
    error = (found - expected).std() / expected.std()
    assert error < (1e-5 if is_written_out else 0.03)


def test_matmuls_of_floats_keep_quantised_weights_in_few_bits(tmp_path: Path):
    builder = Builder()
    x = builder.tensor("x", (3, 64))
    w = builder.tensor("w", (32, 64), "int8", drawing().integers(-127, 128, (32, 64)), 0.01)
    y = builder.tensor("y", (3, 32))
    builder.call(OP.FULLY_CONNECTED, [x, w], y, *options_of("FullyConnectedOptions"))
    made = imported(builder.finish([x], [y]), tmp_path)
    assert made.framework_rounds
    weights = transformed(made)[1].values()
    assert sum(value.numpy().nbytes for value in weights) <= 0.3 * 4 * 32 * 64


@pytest.mark.parametrize("operator", ["MUL", "SUB"])
def test_an_operator_code_in_the_newer_field_only_is_read(operator: str, tmp_path: Path):
    builder = Builder()
    x, y = builder.tensor("x", (2, 3)), builder.tensor("y", (2, 3))
    builder.call(
        getattr(OP, operator),
        [x, builder.tensor("two", (1,), data=[2.0])],
        y,
        *options_of(f"{operator.title()}Options"),
    )
    builder.codes[0].deprecatedBuiltinCode = 0
    content, value = builder.finish([x], [y]), np.arange(6, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal(run_compiled(imported(content, tmp_path), [value])[0], computed(content, value))
