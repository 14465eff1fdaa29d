"""Operators that TVM's importer lacks or converts wrongly agree with ONNX."""

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.frontend.compiled import run_compiled
from tests.frontend.onnx.models import FLOAT, INT64, model, random, read, reference, runtime, save

node = helper.make_node
BOOL, INT8, UINT8 = onnx.TensorProto.BOOL, onnx.TensorProto.INT8, onnx.TensorProto.UINT8


def assert_agrees(tmp_path, proto, inputs, compute_expected=reference, rtol=1e-4, atol=1e-5):
    outputs = run_compiled(read(save(tmp_path / "m.onnx", proto)), inputs)
    for output, expected in zip(outputs, compute_expected(proto, inputs), strict=True):
        assert output.shape == expected.shape and output.dtype == expected.dtype
        np.testing.assert_allclose(output, expected, rtol=rtol, atol=atol)


GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("operator", sorted(GATES))
def test_recurrent_layers_are_unrolled_with_bias_initial_state_and_lengths(tmp_path, operator, direction):
    hidden, directions, rows = 4, 2 if direction == "bidirectional" else 1, GATES[operator]
    constants = {
        "W": random(directions, rows * hidden, 3),
        "R": random(directions, rows * hidden, hidden, seed=1),
        "B": random(directions, 2 * rows * hidden, seed=2),
        "lengths": np.array([5, 3], np.int32),
        "h0": random(directions, 2, hidden, seed=3),
    }
    extra = {"linear_before_reset": 1} if operator == "GRU" else {}
    recurrent = node(
        operator, ["x", "W", "R", "B", "lengths", "h0"], ["y", "h"], hidden_size=hidden, direction=direction, **extra
    )
    proto = model([recurrent], {"x": (FLOAT, [5, 2, 3])}, ["y", "h"], constants)
    assert_agrees(tmp_path, proto, [random(5, 2, 3, seed=4)], runtime)


def test_an_lstm_with_peepholes_and_its_last_cell(tmp_path):
    constants = {"W": random(1, 16, 3), "R": random(1, 16, 4, seed=1), "P": random(1, 12, seed=2)}
    lstm = node("LSTM", ["x", "W", "R", "", "", "", "", "P"], ["y", "h", "c"], hidden_size=4)
    proto = model([lstm], {"x": (FLOAT, [5, 2, 3])}, ["y", "h", "c"], constants)
    assert_agrees(tmp_path, proto, [random(5, 2, 3, seed=4)], runtime)


@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("scales", [[1, 1, 0.6, 0.7], [1, 1, 2, 2], [1, 1, 1.5, 0.4]])
def test_resize_up_and_down_in_every_mode(tmp_path, mode, coordinates, scales):
    constants = {"roi": np.zeros(0, np.float32), "scales": np.array(scales, np.float32)}
    resize = node("Resize", ["x", "roi", "scales"], ["y"], mode=mode, coordinate_transformation_mode=coordinates)
    proto = model([resize], {"x": (FLOAT, [1, 2, 7, 9])}, ["y"], constants)
    # With aligned corners, ONNX's reference uses the length before rounding; PyTorch does not. Its coordinates of nearest elements are
    # float64, those of ONNX Runtime float32: test_nearest.py.
    compute_expected = runtime if coordinates == "align_corners" or mode == "nearest" else reference
    assert_agrees(tmp_path, proto, [random(1, 2, 7, 9)], compute_expected, atol=1e-4)


@pytest.mark.parametrize("size", [10, 11, 13])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize_to_sizes_whose_ratio_is_not_exact(tmp_path, mode, size):
    resize = node("Resize", ["x", "", "", "sizes"], ["y"], mode=mode, coordinate_transformation_mode="align_corners")
    proto = model([resize], {"x": (FLOAT, [1, 2, 12, 6])}, ["y"], {"sizes": np.array([1, 2, 11, size])})
    assert_agrees(tmp_path, proto, [random(1, 2, 12, 6)], atol=1e-4)


@pytest.mark.parametrize("absent", ["", "empty"], ids=["no name", "no elements"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize_to_a_size_that_is_known_except_for_the_batch(tmp_path, mode, absent):
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Slice", ["shape", "start", "end", "start"], ["kept"]),
        node("Concat", ["kept", "size"], ["sizes"], axis=0),
        node(
            "Resize", ["x", absent, absent, "sizes"], ["y"], mode=mode, coordinate_transformation_mode="align_corners"
        ),
    ]
    constants = {"start": np.array([0]), "end": np.array([2]), "size": np.array([11, 5])}
    constants |= {"empty": np.zeros(0, np.float32)} if absent else {}
    proto = model(nodes, {"x": (FLOAT, ["batch", 2, 8, 9])}, ["y"], constants, opset=11 if absent else 19)
    assert_agrees(tmp_path, proto, [random(3, 2, 8, 9)], runtime, atol=1e-4)


def test_resize_to_twice_the_size_with_scales_that_have_no_elements(tmp_path):
    """The form of PyTorch's export for opset 11."""
    resize = node("Resize", ["x", "empty", "empty", "sizes"], ["y"], mode="linear")
    constants = {"empty": np.zeros(0, np.float32), "sizes": np.array([1, 2, 14, 18])}
    proto = model([resize], {"x": (FLOAT, [1, 2, 7, 9])}, ["y"], constants, opset=11)
    assert_agrees(tmp_path, proto, [random(1, 2, 7, 9)], runtime, atol=1e-4)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_pytorchs_resize_to_one_column_takes_the_first(tmp_path, mode):
    """The same as in ONNX Runtime; ONNX's reference implementation differs from the specification."""
    resize = node("Resize", ["x", "", "s"], ["y"], mode=mode, coordinate_transformation_mode="pytorch_half_pixel")
    proto = model([resize], {"x": (FLOAT, [1, 1, 3, 2])}, ["y"], {"s": np.array([1, 1, 2, 0.6], np.float32)})
    x = random(1, 1, 3, 2)
    result = run_compiled(read(save(tmp_path / "m.onnx", proto)), [x])[0]
    np.testing.assert_allclose(result, runtime(proto, [x])[0], rtol=1e-4, atol=1e-4)


def test_resize_with_antialias(tmp_path):
    constants = {"sizes": np.array([1, 2, 4, 3])}
    resize = node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear", antialias=1)
    proto = model([resize], {"x": (FLOAT, [1, 2, 7, 9])}, ["y"], constants)
    assert_agrees(tmp_path, proto, [random(1, 2, 7, 9)], atol=1e-4)


def test_a_quantised_convolution_is_exact(tmp_path):
    draw = np.random.default_rng(0)
    constants = {
        "xs": np.float32(0.02), "xz": np.uint8(120), "w": draw.integers(-128, 128, (4, 3, 3, 3)).astype(np.int8),
        "ws": draw.uniform(0.001, 0.01, 4).astype(np.float32), "wz": np.zeros(4, np.int8), "ys": np.float32(0.05),
        "yz": np.uint8(128), "b": draw.integers(-500, 500, 4).astype(np.int32),
    }  # fmt: skip
    conv = node("QLinearConv", ["x", *constants], ["y"], pads=[1, 1, 1, 1], strides=[2, 2])
    proto = model([conv], {"x": (UINT8, [1, 3, 8, 8])}, ["y"], constants)
    # ONNX Runtime folds the scales in another order; a value at a rounding tie may differ by one step.
    assert_agrees(tmp_path, proto, [draw.integers(0, 256, (1, 3, 8, 8)).astype(np.uint8)], runtime, rtol=0, atol=1)


def test_an_integer_matmul_subtracts_both_zero_points(tmp_path):
    draw = np.random.default_rng(0)
    a, b = draw.integers(0, 256, (5, 300)).astype(np.uint8), draw.integers(-128, 128, (300, 4)).astype(np.int8)
    constants = {"b": b, "az": np.uint8(130), "bz": np.int8(-3)}
    proto = model([node("MatMulInteger", ["a", "b", "az", "bz"], ["y"])], {"a": (UINT8, [5, 300])}, ["y"], constants)
    assert_agrees(tmp_path, proto, [a], rtol=0, atol=0)


def test_a_loop_whose_condition_is_a_constant_of_the_outer_graph_is_unrolled(tmp_path):
    """The form of scripted loops in PyTorch's exporter."""
    body = helper.make_graph(
        [node("Add", ["carried", "x"], ["next"]), node("Identity", ["goes_on"], ["again"])],
        "body",
        [
            helper.make_tensor_value_info("step", INT64, []),
            helper.make_tensor_value_info("condition", BOOL, []),
            helper.make_tensor_value_info("carried", FLOAT, None),
        ],
        [helper.make_tensor_value_info("again", BOOL, []), helper.make_tensor_value_info("next", FLOAT, None)],
    )
    constants = {"trips": np.array(4), "goes_on": np.array(True)}
    proto = model([node("Loop", ["trips", "goes_on", "x"], ["y"], body=body)], {"x": (FLOAT, [2, 3])}, ["y"], constants)
    assert_agrees(tmp_path, proto, [random(2, 3)], runtime)


def counting_loop(inputs, constants, trips=""):
    """A loop while a count, doubled from 1 on, is below a bound, like embedding bags in PyTorch's exporter."""
    body = helper.make_graph(
        [
            node("Add", ["count", "count"], ["more"]),
            node("Add", ["carried", "x"], ["next"]),
            node("Less", ["more", "bound"], ["again"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("step", INT64, []),
            helper.make_tensor_value_info("condition", BOOL, []),
            helper.make_tensor_value_info("count", INT64, []),
            helper.make_tensor_value_info("carried", FLOAT, [2, 3]),
        ],
        [
            helper.make_tensor_value_info("again", BOOL, []),
            helper.make_tensor_value_info("more", INT64, []),
            helper.make_tensor_value_info("next", FLOAT, [2, 3]),
        ],
    )
    constants = {"one": np.array(1), "true": np.array(True), **constants}
    return model(
        [node("Loop", [trips, "true", "one", "x"], ["n", "y"], body=body)],
        {"x": (FLOAT, [2, 3]), **inputs},
        ["y"],
        constants,
    )


@pytest.mark.parametrize("trips", [None, 3, 100])
def test_a_loop_with_a_counting_condition_is_unrolled(tmp_path, trips):
    constants = {"bound": np.array(20), **({} if trips is None else {"trips": np.array(trips)})}
    assert_agrees(tmp_path, counting_loop({}, constants, "trips" if trips else ""), [random(2, 3)], runtime)


@pytest.mark.parametrize("bound", [0, 100])
def test_a_loop_with_a_counting_condition_may_depend_on_an_input(tmp_path, bound):
    proto = counting_loop({"bound": (INT64, [])}, {})
    values = {"x": random(2, 3), "bound": np.array(bound)}
    assert_agrees(tmp_path, proto, [values[value.name] for value in proto.graph.input], runtime)


def test_a_dimension_with_a_single_valid_size_becomes_that_size(tmp_path):
    proto = model([node("Add", ["x", "w"], ["y"])], {"x": (FLOAT, ["batch", 3])}, ["y"], {"w": random(7, 3)})
    imported = read(save(tmp_path / "m.onnx", proto))
    assert imported.signature.inputs[0].shape == imported.signature.outputs[0].shape == (7, 3)
    (result,) = run_compiled(imported, [random(7, 3, seed=1)])
    np.testing.assert_allclose(result, runtime(proto, [random(7, 3, seed=1)])[0], rtol=1e-6)


def test_four_bit_weights_are_widened(tmp_path):
    values = np.arange(-8, 8).reshape(4, 4)
    proto = model([node("MatMul", ["x", "w"], ["y"])], {"x": (FLOAT, [2, 4])}, ["y"], {"w": random(4, 4)}, opset=21)
    del proto.graph.initializer[:]
    proto.graph.initializer.append(helper.make_tensor("q", onnx.TensorProto.INT4, [4, 4], values.ravel()))
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(0.5), "s"))
    proto.graph.node.insert(0, node("DequantizeLinear", ["q", "s"], ["w"]))
    x = random(2, 4)
    imported = read(save(tmp_path / "m.onnx", proto))
    np.testing.assert_allclose(run_compiled(imported, [x])[0], x @ (values * 0.5).astype(np.float32), rtol=1e-5)


def test_a_fixed_loop_is_unrolled(tmp_path):
    body = helper.make_graph(
        [
            node("Identity", ["go"], ["still"]),
            node("Mul", ["state", "x"], ["next"]),
            node("Identity", ["next"], ["row"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", INT64, []),
            helper.make_tensor_value_info("go", BOOL, []),
            helper.make_tensor_value_info("state", FLOAT, [3]),
        ],
        [
            helper.make_tensor_value_info("still", BOOL, []),
            helper.make_tensor_value_info("next", FLOAT, [3]),
            helper.make_tensor_value_info("row", FLOAT, [3]),
        ],
    )
    constants = {"n": np.array(4), "true": np.array(True)}
    proto = model(
        [node("Loop", ["n", "true", "x"], ["z", "rows"], body=body)], {"x": (FLOAT, [3])}, ["z", "rows"], constants
    )
    assert_agrees(tmp_path, proto, [random(3)])


def test_attention_of_the_onnx_domain_is_not_the_contrib_one(tmp_path):
    inputs = {name: (FLOAT, [1, 2, 5, 8]) for name in ("q", "k", "v")}
    proto = model([node("Attention", ["q", "k", "v"], ["y"], is_causal=1)], inputs, ["y"], opset=23)
    assert_agrees(tmp_path, proto, [random(1, 2, 5, 8, seed=seed) for seed in range(3)])


SINGLE = {
    "conv_transpose_output_shape": (
        node("ConvTranspose", ["x", "w"], ["y"], output_shape=[10, 8], strides=[3, 2]),
        {"x": (1, 1, 3, 3)}, {"w": random(1, 2, 3, 3)},
    ),
    "affine_grid": (node("AffineGrid", ["x", "s"], ["y"]), {"x": (2, 2, 3)}, {"s": np.array([2, 3, 5, 6])}),
    "affine_grid_of_one": (
        node("AffineGrid", ["x", "s"], ["y"], align_corners=1), {"x": (1, 2, 3)}, {"s": np.array([1, 3, 5, 6])},
    ),
    "affine_grid_of_a_volume": (
        node("AffineGrid", ["x", "s"], ["y"]), {"x": (1, 3, 4)}, {"s": np.array([1, 3, 4, 5, 6])},
    ),
    "compress_along_an_axis": (
        node("Compress", ["x", "c"], ["y"], axis=-1), {"x": (2, 4)}, {"c": np.array([True, False, True])},
    ),
    "compress_of_all": (node("Compress", ["x", "c"], ["y"]), {"x": (2, 4)}, {"c": np.arange(8) % 3 == 0}),
    "celu": (node("Celu", ["x"], ["y"], alpha=0.5), {"x": (2, 4)}, {}),
    "isinf_negative_only": (node("IsInf", ["x"], ["y"], detect_positive=0), {"x": (4,)}, {}),
    "space_to_depth": (node("SpaceToDepth", ["x"], ["y"], blocksize=2), {"x": (1, 3, 4, 6)}, {}),
    "depth_to_space_crd": (node("DepthToSpace", ["x"], ["y"], blocksize=2, mode="CRD"), {"x": (1, 8, 2, 3)}, {}),
    "expand_to_a_smaller_shape": (node("Expand", ["x", "s"], ["y"]), {"x": (3, 1)}, {"s": np.array([1, 3])}),
    "layer_normalization_statistics": (
        node("LayerNormalization", ["x", "g"], ["y", "m", "d"]), {"x": (2, 5)}, {"g": random(5)},
    ),
    "lp_normalization": (node("LpNormalization", ["x"], ["y"], p=1, axis=1), {"x": (2, 5)}, {}),
    "reduce_l2_computed_axes": (node("ReduceL2", ["x", "a"], ["y"]), {"x": (2, 5)}, {"a": np.array([-1])}),
    "dft": (node("DFT", ["x"], ["y"], axis=1, onesided=1), {"x": (2, 12, 1)}, {}),
    "pow_int_exponent": (node("Pow", ["x", "e"], ["y"]), {"x": (4,)}, {"e": np.array([1, 2, 3, 4])}),
    "one_hot_negative": (
        node("OneHot", ["i", "d", "v"], ["y"]), {"v": (2,)}, {"i": np.array([0, -1]), "d": np.array(3)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(SINGLE))
def test_a_single_operator(tmp_path, name):
    operator, shapes, constants = SINGLE[name]
    proto = model([operator], {key: (FLOAT, shape) for key, shape in shapes.items()}, list(operator.output), constants)
    proto.opset_import[0].version = max(proto.opset_import[0].version, 20 if operator.op_type == "AffineGrid" else 0)
    values = [random(*shape) for shape in shapes.values()]
    if operator.op_type == "IsInf":
        values = [np.array([-np.inf, np.inf, np.nan, 1], np.float32)]
    if operator.op_type == "DepthToSpace":
        b, c, h, w = values[0].shape
        expected = values[0].reshape(b, c // 4, 2, 2, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(b, c // 4, 2 * h, 2 * w)
        assert_agrees(tmp_path, proto, values, lambda *_: [expected])
        return
    assert_agrees(
        tmp_path, proto, values, runtime if operator.op_type in ("ConvTranspose", "LpNormalization") else reference
    )


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize(("axis", "shape"), [(0, (2, 1, 3)), (1, (2, 2, 1)), (-1, (1, 2, 3)), (2, (1, 3, 2))])
def test_scattering_need_not_cover_the_other_axes(tmp_path, reduction, axis, shape):
    beside = np.indices(shape).sum(0)
    size = (2, 3, 4)[axis]
    at = (beside + 1) % size - (beside % 2) * size  # some counted from the end, none twice along the axis
    constants = {"at": at, "u": random(*shape, seed=1)}
    scatter = node("ScatterElements", ["x", "at", "u"], ["y"], axis=axis, reduction=reduction)
    assert_agrees(tmp_path, model([scatter], {"x": (FLOAT, [2, 3, 4])}, ["y"], constants), [random(2, 3, 4)], reference)


def test_operators_after_a_group_normalization_know_its_shape(tmp_path):
    nodes = [
        node("GroupNormalization", ["x", "s", "b"], ["g"], num_groups=2),
        node("LayerNormalization", ["g", "w"], ["y", "mean"], axis=-2),
    ]
    constants = {"s": random(4), "b": random(4, seed=1), "w": random(3, 5)}
    proto = model(nodes, {"x": (FLOAT, [2, 4, 3, 5])}, ["y", "mean"], constants, opset=21)
    assert_agrees(tmp_path, proto, [random(2, 4, 3, 5)], reference)


@pytest.mark.parametrize(("length", "is_given"), [(12, True), (11, True), (12, False)])
def test_an_inverse_transform_of_half_the_frequencies_is_real(tmp_path, length, is_given):
    operator = node("DFT", ["x", "n" if is_given else "", "a"], ["y"], inverse=1, onesided=1)
    constants = {"n": np.array(length), "a": np.array(-2)}
    proto = model([operator], {"x": (FLOAT, (2, length // 2 + 1, 2))}, ["y"], constants, opset=20)
    halves = random(2, length // 2 + 1, 2)

    expected = np.fft.irfft(halves[..., 0] + 1j * halves[..., 1], length)[..., None].astype("float32")
    assert_agrees(tmp_path, proto, [halves], lambda *_: [expected])


def test_batch_normalisation_in_training_mode_uses_the_batch(tmp_path):
    constants = {name: np.abs(random(3, seed=seed)) for seed, name in enumerate(("s", "b", "m", "v"))}
    bn = node("BatchNormalization", ["x", *constants], ["y", "rm", "rv"], training_mode=1)
    proto = model([bn], {"x": (FLOAT, [2, 3, 4, 5])}, ["y", "rm", "rv"], constants)
    assert_agrees(tmp_path, proto, [random(2, 3, 4, 5)])


@pytest.mark.parametrize("inputs", [2, 3])
@pytest.mark.parametrize("operator", ["Min", "Max", "Sum", "Mean"])
def test_several_tensors_are_reduced_pairwise_and_broadcast(tmp_path, operator, inputs):
    given = dict(list({"x": (FLOAT, [2, 3, 4]), "y": (FLOAT, [3, 1]), "z": (FLOAT, [4])}.items())[:inputs])
    proto = model([node(operator, [*given], ["r"])], given, ["r"])
    assert "stack" not in read(save(tmp_path / "m.onnx", proto)).module.script()
    assert_agrees(tmp_path, proto, [random(*shape, seed=seed) for seed, (_, shape) in enumerate(given.values())])


def test_a_reduction_of_one_tensor_over_an_axis_of_its_own_stays(tmp_path):
    proto = model([node("ReduceMax", ["x"], ["r"], axes=[0], keepdims=0)], {"x": (FLOAT, [2, 3])}, ["r"], opset=13)
    assert_agrees(tmp_path, proto, [random(2, 3)])


def test_run_time_axes_are_derived_from_the_declared_output(tmp_path):
    proto = model([node("ReduceSum", ["x", "a"], ["y"])], {"x": (FLOAT, [2, 5, 3]), "a": (INT64, [1])}, ["y"])
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", FLOAT, [2, 1, 3]))
    assert_agrees(tmp_path, proto, [random(2, 5, 3), np.array([1])])


def test_suppression_keeps_a_box_at_the_threshold(tmp_path):
    # The intersection of the two boxes is 0.25 of a union of 1.75.
    constants = {
        "boxes": np.array([[[0, 0, 1, 1], [0.5, 0.5, 1.5, 1.5]]], np.float32), "n": np.array([3]),
        "iou": np.array([0.25 / 1.75], np.float32),
    }  # fmt: skip
    nms = node("NonMaxSuppression", ["boxes", "scores", "n", "iou"], ["y"])
    proto = model([nms], {"scores": (FLOAT, [1, 1, 2])}, ["y"], constants)
    # A score below 0 counts without a score threshold.
    outputs = run_compiled(read(save(tmp_path / "m.onnx", proto)), [np.array([[[0.9, -0.8]]], np.float32)])
    assert outputs[0].tolist() == [[0, 0, 0], [0, 0, 1]]


def test_a_recurrent_layer_takes_a_dynamic_batch(tmp_path):
    constants = {"W": random(1, 12, 3), "R": random(1, 12, 4, seed=1)}
    gru = node("GRU", ["x", "W", "R"], ["y", "h"], hidden_size=4)
    proto = model([gru], {"x": (FLOAT, [5, "N", 3])}, ["y", "h"], constants)
    for batch in (1, 3):
        assert_agrees(tmp_path, proto, [random(5, batch, 3, seed=batch)], runtime)


def test_booleans_are_compared(tmp_path):
    nodes = [node("Less", ["x", "y"], ["a"]), node("Less", ["x", "z"], ["b"]), node("Equal", ["a", "b"], ["c"])]
    proto = model(nodes, {name: (FLOAT, [8]) for name in "xyz"}, ["c"])
    inputs = [random(8, seed=seed) for seed in range(3)]
    np.testing.assert_array_equal(
        run_compiled(read(save(tmp_path / "m.onnx", proto)), inputs)[0], runtime(proto, inputs)[0]
    )


@pytest.mark.parametrize("axis", [-1, 1])
def test_the_first_maximum_along_a_dynamic_axis(tmp_path, axis):
    proto = model([node("Hardmax", ["x"], ["y"], axis=axis)], {"x": (FLOAT, [2, "n", "m"])}, ["y"])
    imported = read(save(tmp_path / "m.onnx", proto))
    x = np.array([[[1, 5, 5], [2, 0, 7]], [[9, 9, 1], [9, 3, 3]]], np.float32)
    np.testing.assert_array_equal(run_compiled(imported, [x])[0], runtime(proto, [x])[0])


def test_celu_of_a_scalar_is_a_scalar(tmp_path):
    proto = model([node("Celu", ["x"], ["y"], alpha=0.5)], {"x": (FLOAT, [])}, ["y"])
    assert read(save(tmp_path / "m.onnx", proto)).module["main"].ret_ty.ndim == 0


@pytest.mark.parametrize("name", ["Elu", "Selu"])
def test_exponential_units_keep_the_digits_below_zero(tmp_path, name):
    proto = model([node(name, ["x"], ["y"])], {"x": (FLOAT, [6])}, ["y"])
    values = np.array([-1e-7, -3e-5, -1e-3, -0.4, -9, 2], "float32")
    assert_agrees(tmp_path, proto, [values], runtime, rtol=1e-6, atol=0)


def test_half_precision_elu(tmp_path):
    proto = model([node("Elu", ["x"], ["y"])], {"x": (onnx.TensorProto.FLOAT16, [6])}, ["y"], opset=22)
    assert_agrees(tmp_path, proto, [random(6).astype(np.float16)], rtol=2e-3)


@pytest.mark.parametrize(("extra", "groups", "parts"), [({}, 1, 1), ({"mask": True}, 2, 2)])
def test_deformable_convolution_samples_at_its_offsets(tmp_path, extra, groups, parts):
    constants = {"w": random(4, 4 // groups, 3, 2, seed=1), "b": random(4, seed=2)}
    inputs = {"x": (FLOAT, [2, 4, 6, 7]), "offset": (FLOAT, [2, parts * 12, 6, 4])}
    values = [random(2, 4, 6, 7), 2 * random(2, parts * 12, 6, 4, seed=3)]
    if extra:
        inputs["mask"] = (FLOAT, [2, parts * 6, 6, 4])
        values.append(random(2, parts * 6, 6, 4, seed=4))
    convolution = node(
        "DeformConv", ["x", "w", "offset", "b", *extra], ["y"], kernel_shape=[3, 2], pads=[1, 0, 1, 1], strides=[1, 2],
        group=groups, offset_group=parts,
    )  # fmt: skip
    assert_agrees(tmp_path, model([convolution], inputs, ["y"], constants, opset=19), values)


@pytest.mark.parametrize(
    "extra", [{"pads": [1, 0, 0, 1]}, {"ceil_mode": 1, "dilations": [2, 1]}, {"auto_pad": "SAME_UPPER"}]
)
def test_indices_of_maxima_count_from_the_first_element_of_the_batch(tmp_path, extra):
    pool = node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 3], strides=[2, 2], **extra)
    proto = model([pool], {"x": (FLOAT, [2, 3, 7, 8])}, ["y", "i"])
    assert_agrees(tmp_path, proto, [random(2, 3, 7, 8)], runtime)


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_a_cache_is_updated_at_one_index_per_row(tmp_path, mode):
    scatter = node("TensorScatter", ["cache", "new", "at"], ["y"], mode=mode)
    inputs = {"cache": (FLOAT, [2, 3, 8, 4]), "new": (FLOAT, [2, 3, 2, 4]), "at": (INT64, [2])}
    begins = np.array([6, 3] if mode == "linear" else [7, 3])
    assert_agrees(
        tmp_path, model([scatter], inputs, ["y"], opset=24), [random(2, 3, 8, 4), random(2, 3, 2, 4, seed=1), begins]
    )


@pytest.mark.parametrize("size", [1, 2, 4])
def test_determinants_of_small_matrices(tmp_path, size):
    proto = model([node("Det", ["x"], ["y"])], {"x": (FLOAT, [3, size, size])}, ["y"])
    assert_agrees(tmp_path, proto, [random(3, size, size)])


def test_bits_are_reinterpreted_as_another_type(tmp_path):
    cast = [node("BitCast", ["x"], ["i"], to=onnx.TensorProto.INT32), node("BitCast", ["i"], ["y"], to=FLOAT)]
    proto = model(cast, {"x": (FLOAT, [2, 3])}, ["i", "y"], opset=26)
    x = random(2, 3)
    bits, back = run_compiled(read(save(tmp_path / "m.onnx", proto)), [x])
    np.testing.assert_array_equal(bits, x.view(np.int32))
    np.testing.assert_array_equal(back, x)


@pytest.mark.parametrize(
    "settings", [{}, {"coordinate_transformation_mode": "output_half_pixel"}, {"sampling_ratio": 2}]
)
def test_regions_are_scaled_like_the_image(tmp_path, settings):
    regions = np.array([[0, 0, 11, 15], [3.5, 2, 17, 9], [6, 8, 7, 8.5]], np.float32)
    align = node("RoiAlign", ["x", "r", "p"], ["y"], output_height=3, output_width=2, spatial_scale=0.5, **settings)
    proto = model(
        [align], {"x": (FLOAT, [2, 3, 8, 9]), "r": (FLOAT, [3, 4])}, ["y"], {"p": np.array([0, 1, 0])}, opset=21
    )
    assert_agrees(tmp_path, proto, [random(2, 3, 8, 9), regions], runtime)


def test_an_unsorted_top_k(tmp_path):
    """PyTorch's ``topk(sorted=False)``: the importer supports sorted results only."""
    top = node("TopK", ["x", "k"], ["values", "indices"], axis=1, sorted=0)
    total = node("ReduceSum", ["values", "k"], ["y"], keepdims=1)
    proto = model([top, total], {"x": (FLOAT, [3, 7])}, ["y"], {"k": np.array([1])})
    assert_agrees(tmp_path, proto, [random(3, 7)], runtime)


@pytest.mark.parametrize(("time", "batch"), [(0, 1), (1, 0)])
def test_sequences_of_dynamic_length_are_reversed_up_to_their_lengths(tmp_path, time, batch):
    shape = ["t", "b", 3] if time == 0 else ["b", "t", 3]
    nodes = [helper.make_node("ReverseSequence", ["x", "lengths"], ["y"], time_axis=time, batch_axis=batch)]
    proto = model(nodes, {"x": (FLOAT, shape), "lengths": (INT64, ["b"])}, ["y"])
    imported = read(save(tmp_path / "m.onnx", proto))
    for steps, lengths in ((4, [0, 4, 3]), (1, [1])):
        sizes = {"t": steps, "b": len(lengths)}
        inputs = [random(*(sizes.get(size, size) for size in shape)), np.array(lengths)]
        np.testing.assert_array_equal(run_compiled(imported, inputs)[0], runtime(proto, inputs)[0])
