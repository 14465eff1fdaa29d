"""Single operators agree with LiteRT."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from tests.frontend.compiled import run_compiled
from tests.frontend.tflite.models import KIND, OP, Builder, schema
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.tflite.importer import read

SAME, VALID = schema.Padding.SAME, schema.Padding.VALID


@dataclass(frozen=True)
class Case:
    """An operator with its operands: arrays are inputs, lists are int32 constants, arrays in tuples are constants."""

    operator: str
    operands: list[Any]
    options: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    dtype: str = "float32"

    def model(self, shape: Any) -> bytes:
        """The operator as a file with an output of the given shape."""
        builder = Builder()
        indices, inputs = [], []
        for number, operand in enumerate(self.operands):
            is_constant = isinstance(operand, list | tuple)
            value = np.array(operand, "int32") if isinstance(operand, list) else operand[0] if is_constant else operand
            data = value if is_constant else None
            indices.append(builder.tensor(f"x{number}", value.shape, str(value.dtype), data))
            inputs += [] if is_constant else [indices[-1]]
        output = builder.tensor("y", shape, self.dtype)
        options, kind = None, None
        if self.options:
            options, kind = getattr(schema, f"{self.options}T")(), getattr(KIND, self.options)
            for name, value in self.values.items():
                setattr(options, name, value)
        builder.call(getattr(OP, self.operator), indices, output, options, kind)
        return builder.finish(inputs, [output])

    def inputs(self) -> list[np.ndarray]:
        """The operands that are not constants."""
        return [operand for operand in self.operands if not isinstance(operand, list | tuple)]


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def transposed(padding: int, stride: int, taps: int, extra: int = 0) -> Case:
    out = [1, 6 * stride + extra, 8 * stride + extra, 5]
    options = {"padding": padding, "strideH": stride, "strideW": stride}
    return Case("TRANSPOSE_CONV", [out, (drawn(5, taps, taps, 4),), drawn(1, 6, 8, 4)], "TransposeConvOptions", options)


ROWS, IMAGE, INDICES = drawn(2, 6), drawn(1, 6, 8, 4), np.array([[1, 0], [5, 2]], "int32")

CASES = {
    "places of maxima": Case("ARG_MAX", [ROWS, [1]], "ArgMaxOptions", {"outputType": 2}, "int32"),
    "softmax with a factor": Case("SOFTMAX", [ROWS], "SoftmaxOptions", {"beta": 2.0}),
    "softmax": Case("SOFTMAX", [ROWS], "SoftmaxOptions", {"beta": 1.0}),
    "transposed convolution": transposed(SAME, 2, 3),
    "transposed convolution of larger steps": transposed(SAME, 3, 2),
    "transposed convolution without padding": transposed(VALID, 2, 3, extra=1),
    "nearest pixels with corners aligned": Case(
        "RESIZE_NEAREST_NEIGHBOR", [IMAGE, [9, 11]], "ResizeNearestNeighborOptions", {"alignCorners": True}
    ),
    "one nearest pixel with corners aligned": Case(
        "RESIZE_NEAREST_NEIGHBOR", [IMAGE, [1, 1]], "ResizeNearestNeighborOptions", {"alignCorners": True}
    ),
    "one row with corners aligned": Case(
        "RESIZE_BILINEAR", [IMAGE, [1, 9]], "ResizeBilinearOptions", {"alignCorners": True}
    ),
    "dense of three axes": Case(
        "FULLY_CONNECTED", [drawn(2, 3, 6), (drawn(4, 6),), (drawn(4),)], "FullyConnectedOptions"
    ),
    "dense of all axes but the batch": Case(
        "FULLY_CONNECTED", [drawn(2, 2, 3, 2), (drawn(4, 12),), (drawn(4),)], "FullyConnectedOptions"
    ),
    "dense without bias": Case(
        "FULLY_CONNECTED", [ROWS, (drawn(4, 6),)], "FullyConnectedOptions", {"fusedActivationFunction": 1}
    ),
    "elements at places": Case(
        "GATHER_ND", [drawn(3, 4, 5), np.array([[[0, 1], [2, 3]]], "int32")], "GatherNdOptions"
    ),
    "an axis more": Case("EXPAND_DIMS", [ROWS, [-1]], "ExpandDimsOptions"),
    "all axes of one element": Case("SQUEEZE", [drawn(1, 3, 1, 2)], "SqueezeOptions", {"squeezeDims": []}),
    "a table": Case("EMBEDDING_LOOKUP", [np.array([0, 2], "int32"), (drawn(5, 3),)]),
    "places that are summed up": Case("SCATTER_ND", [[[1], [3], [1]], drawn(3, 4), [5, 4]], "ScatterNdOptions"),
    "blocks to the batch": Case(
        "SPACE_TO_BATCH_ND", [IMAGE, [2, 3], [[1, 1], [0, 1]]], "SpaceToBatchNDOptions"
    ),
    "the batch to blocks": Case(
        "BATCH_TO_SPACE_ND", [drawn(12, 3, 4, 2), [2, 3], [[1, 0], [0, 2]]], "BatchToSpaceNDOptions"
    ),
    "indices of each row": Case("GATHER", [ROWS, INDICES], "GatherOptions", {"axis": 1, "batchDims": 1}),
    "places": Case("GATHER", [ROWS, INDICES], "GatherOptions", {"axis": 1}),
    "batches that are spread": Case(
        "BATCH_MATMUL", [drawn(2, 1, 4, 3), drawn(3, 5, 4)], "BatchMatMulOptions", {"adjX": True, "adjY": True}
    ),
    "a GELU by tanh": Case("GELU", [ROWS], "GeluOptions", {"approximate": True}),
    "sums from the end": Case("CUMSUM", [ROWS, [1]], "CumsumOptions", {"reverse": True}),
    "sums of what follows": Case("CUMSUM", [ROWS, [-1]], "CumsumOptions", {"reverse": True, "exclusive": True}),
    "a choice of rows": Case("SELECT", [np.array([True, False]), ROWS, drawn(2, 6) + 1], "SelectOptions"),
    "a block at a place": Case(
        "DYNAMIC_UPDATE_SLICE", [ROWS, drawn(1, 4), np.array([1, 1], "int32")], "DynamicUpdateSliceOptions"
    ),
    "a block at a place beyond the end": Case(
        "DYNAMIC_UPDATE_SLICE", [ROWS, drawn(1, 4), np.array([9, -2], "int32")], "DynamicUpdateSliceOptions"
    ),
    "a mirrored border": Case("MIRROR_PAD", [ROWS, [[1, 1], [0, 3]]], "MirrorPadOptions", {"mode": 1}),
}  # fmt: skip


def computed(content: bytes, inputs: list[np.ndarray]) -> np.ndarray:
    """LiteRT's results."""
    interpreter = Interpreter(model_content=content)
    interpreter.allocate_tensors()
    for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    result: np.ndarray = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    return result


@pytest.mark.parametrize("name", CASES)
def test_an_operator_agrees_with_litert(name: str, tmp_path: Path):
    case = CASES[name]
    inputs = case.inputs()
    expected = computed(case.model([1]), inputs)  # LiteRT works the shape out
    path = tmp_path / "m.tflite"
    path.write_bytes(case.model(expected.shape))
    (got,) = run_compiled(read(path, ImportOptions(source=str(path))), inputs)
    assert got.dtype == expected.dtype and got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_a_quantised_transposed_convolution_differs_by_one_step_at_most(tmp_path: Path):
    random, builder = np.random.default_rng(0), Builder()
    shape = builder.tensor("s", (4,), "int32", [1, 8, 10, 3])
    kernel = builder.tensor("w", (3, 3, 3, 4), "int8", random.integers(-127, 128, (3, 3, 3, 4)), [0.01, 0.02, 0.03])
    image = builder.tensor("x", (1, 4, 5, 4), "int8", scale=0.05, zero_point=3)
    bias = builder.tensor("b", (3,), "int32", [400, -300, 100], np.array([0.01, 0.02, 0.03]) * 0.05)
    output = builder.tensor("y", (1, 8, 10, 3), "int8", scale=0.3, zero_point=-5)
    options = schema.TransposeConvOptionsT()
    options.padding, options.strideH, options.strideW = SAME, 2, 2
    builder.call(OP.TRANSPOSE_CONV, [shape, kernel, image, bias], output, options, KIND.TransposeConvOptions)
    path = tmp_path / "m.tflite"
    path.write_bytes(builder.finish([image], [output]))
    value = random.integers(-128, 128, (1, 4, 5, 4)).astype("int8")
    (got,) = run_compiled(read(path, ImportOptions(source=str(path))), [value])
    expected = computed(path.read_bytes(), [value])
    assert expected.std() > 10 and np.abs(got.astype(int) - expected).max() <= 1


@pytest.mark.parametrize(("padding", "shape"), [(1, (1, 8, 10, 3)), (2, (1, 9, 11, 3))], ids=["same", "valid"])
def test_mediapipes_transposed_convolution_agrees_with_litert(tmp_path: Path, padding: int, shape: tuple[int, ...]):
    builder = Builder()
    image = builder.tensor("x", (1, 4, 5, 4))
    kernel, bias = builder.tensor("w", (3, 3, 3, 4), data=drawn(3, 3, 3, 4)), builder.tensor("b", (3,), data=drawn(3))
    output = builder.tensor("y", shape)
    builder.call(OP.CUSTOM, [image, kernel, bias], output, custom="Convolution2DTransposeBias")
    builder.graph.operators[-1].customOptions = np.frombuffer(np.array([padding, 2, 2], "<i4").tobytes(), "uint8")
    path = tmp_path / "m.tflite"
    path.write_bytes(builder.finish([image], [output]))
    value = drawn(1, 4, 5, 4)
    (got,) = run_compiled(read(path, ImportOptions(source=str(path))), [value])
    np.testing.assert_allclose(got, computed(path.read_bytes(), [value]), rtol=1e-5, atol=1e-5)


def test_space_to_batch_follows_a_dynamic_batch(tmp_path: Path):
    builder = Builder()
    image = builder.tensor("x", (1, 4, 6, 2), open_axes=(0,))
    sizes, pads = (
        builder.tensor(name, np.shape(data), "int32", data) for name, data in (("s", [2, 3]), ("p", [[0, 0]] * 2))
    )
    blocks = builder.tensor("b", (6, 2, 2, 2))
    builder.call(OP.SPACE_TO_BATCH_ND, [image, sizes, pads], blocks)
    whole = builder.call(OP.BATCH_TO_SPACE_ND, [blocks, sizes, pads], builder.tensor("y", (1, 4, 6, 2)))
    path = tmp_path / "m.tflite"
    path.write_bytes(builder.finish([image], [whole]))
    value = drawn(3, 4, 6, 2)
    made = read(path, ImportOptions(source=str(path), inputs={"x": {"shape": [3, 4, 6, 2]}}))
    (got,) = run_compiled(made, [value])
    np.testing.assert_array_equal(got, value)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_reshape_to_a_computed_shape_takes_the_declared_one(tmp_path: Path, batch: int):
    """As tools write a reshape that keeps a dynamic batch: a part of the input's shape beside constants."""
    builder = Builder()
    image = builder.tensor("x", (1, 4, 6, 2), open_axes=(0,))
    shape = builder.call(OP.SHAPE, [image], builder.tensor("s", (4,), "int32"))
    bounds = [builder.tensor(name, (1,), "int32", [value]) for name, value in (("from", 0), ("to", 1), ("by", 1))]
    options = schema.StridedSliceOptionsT()
    options.shrinkAxisMask = 1
    size = builder.call(
        OP.STRIDED_SLICE, [shape, *bounds], builder.tensor("n", (), "int32"), options, KIND.StridedSliceOptions
    )
    rest = [builder.tensor(f"c{number}", (), "int32", number) for number in (8, 6)]
    pack = schema.PackOptionsT()
    pack.valuesCount = 3
    target = builder.call(OP.PACK, [size, *rest], builder.tensor("t", (3,), "int32"), pack, KIND.PackOptions)
    rows = builder.call(OP.RESHAPE, [image, target], builder.tensor("y", (1, 8, 6), open_axes=(0,)))
    path = tmp_path / "m.tflite"
    path.write_bytes(builder.finish([image], [rows]))
    value = drawn(batch, 4, 6, 2)
    imported = read(path, ImportOptions(source=str(path), inputs={"x": {"shape": [batch, 4, 6, 2]}}))
    (output,) = run_compiled(imported, [value])
    np.testing.assert_array_equal(output, value.reshape(batch, 8, 6))


def test_sparse_weights_in_half_precision_become_dense(tmp_path: Path):
    """Rows of the weights in compressed form, which DENSIFY and DEQUANTIZE read, as in MediaPipe's sparse networks."""
    weights = np.array([[0, 2, 0, 0.5], [0, 0, 0, 0], [1, 0, -3, 0]], "float16")
    builder = Builder()
    sparse = builder.tensor("w", weights.shape, "float16", weights[weights != 0])
    builder.graph.tensors[sparse].sparsity = compressed_rows(weights)
    dense = builder.call(OP.DENSIFY, [sparse], builder.tensor("dense", weights.shape, "float16"))
    real = builder.call(OP.DEQUANTIZE, [dense], builder.tensor("real", weights.shape))
    data = builder.tensor("x", (2, 4))
    options = schema.FullyConnectedOptionsT()
    output = builder.tensor("y", (2, 3))
    builder.call(OP.FULLY_CONNECTED, [data, real, -1], output, options, KIND.FullyConnectedOptions)
    path = tmp_path / "m.tflite"
    path.write_bytes(builder.finish([data], [output]))
    value = drawn(2, 4)
    (result,) = run_compiled(read(path, ImportOptions(source=str(path))), [value])
    np.testing.assert_allclose(result, value @ weights.astype("float32").T, rtol=1e-6)


def compressed_rows(matrix: np.ndarray) -> schema.SparsityParametersT:
    rows, columns = schema.DimensionMetadataT(), schema.DimensionMetadataT()
    rows.format, rows.denseSize = schema.DimensionType.DENSE, len(matrix)
    columns.format = schema.DimensionType.SPARSE_CSR
    segments, indices = schema.Int32VectorT(), schema.Int32VectorT()
    segments.values = [0, *np.cumsum(np.count_nonzero(matrix, axis=1)).tolist()]
    indices.values = np.nonzero(matrix)[1].tolist()
    columns.arraySegments, columns.arraySegmentsType = segments, schema.SparseIndexVector.Int32Vector
    columns.arrayIndices, columns.arrayIndicesType = indices, schema.SparseIndexVector.Int32Vector
    sparsity = schema.SparsityParametersT()
    sparsity.traversalOrder, sparsity.dimMetadata = [0, 1], [rows, columns]
    return sparsity


def test_operators_that_packages_do_not_contain_are_refused(tmp_path: Path):
    path = tmp_path / "m.tflite"
    path.write_bytes(Case("MATRIX_DIAG", [ROWS], "MatrixDiagOptions").model([2, 6, 6]))
    with pytest.raises(InputError, match=r"no importer in TVM .*: MATRIX_DIAG"):
        read(path, ImportOptions(source=str(path)))
