"""ONNX files that are refused, and the messages."""

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.frontend.onnx.models import FLOAT, INT64, linear, model, random, read, refusal, save
from tvmake.errors import InputError
from tvmake.frontend.onnx.domains import NEVER_IMPORTED
from tvmake.frontend.onnx.inputs import inspect
from tvmake.frontend.onnx.refuse import MICROSOFT_ONLY, supported_operators
from tvmake.frontend.onnx.rewrites.table import REWRITES

node = helper.make_node


def test_every_missing_operator_is_listed_with_its_count(tmp_path):
    proto = model(
        [node("Bernoulli", ["x"], ["a"]), node("Bernoulli", ["x"], ["b"]), node("RandomNormalLike", ["x"], ["c"])],
        {"x": (FLOAT, [3, 3])},
        ["a", "b", "c"],
    )
    assert (
        "2 operators cannot be imported: Bernoulli (2×), RandomNormalLike (1×)"
        in refusal(save(tmp_path / "m.onnx", proto)).problem
    )


def test_operators_of_other_domains_are_distinguished_from_onnxs(tmp_path):
    proto = model(
        [node("Relu", ["x"], ["h"], domain="my.evil"), node("Attention", ["h"], ["y"], domain="other")],
        {"x": (FLOAT, [2])}, ["y"], domains=["my.evil", "other"],
    )  # fmt: skip
    assert "my.evil::Relu (1×), other::Attention (1×)" in refusal(save(tmp_path / "m.onnx", proto)).problem


def test_a_contrib_operator_without_its_domain_is_not_onnx(tmp_path):
    proto = model([node("Identity", ["x"], ["y"])], {"x": (FLOAT, [2])}, ["y"])
    proto.graph.node[0].op_type = "FastGelu"
    assert "FastGelu" in refusal(save(tmp_path / "m.onnx", proto)).problem


def test_training_dropout_is_refused(tmp_path):
    constants = {"r": np.float32(0.5), "t": np.array(True)}
    proto = model([node("Dropout", ["x", "r", "t"], ["y"])], {"x": (FLOAT, [2])}, ["y"], constants)
    assert "training mode is random" in refusal(save(tmp_path / "m.onnx", proto)).problem


def test_string_and_sequence_inputs_are_refused(tmp_path):
    text = model([node("Identity", ["x"], ["y"])], {"x": (onnx.TensorProto.STRING, [2])}, ["y"])
    assert "element type string" in refusal(save(tmp_path / "text.onnx", text)).problem
    proto = model([node("Identity", ["x"], ["y"])], {"x": (FLOAT, [2])}, ["y"])
    proto.graph.input[0].CopyFrom(helper.make_tensor_sequence_value_info("x", FLOAT, [2]))
    proto.graph.output[0].CopyFrom(helper.make_tensor_sequence_value_info("y", FLOAT, [2]))
    assert "is a sequence" in refusal(save(tmp_path / "sequence.onnx", proto)).problem


def test_a_node_the_importer_fails_on_is_named_and_nothing_is_printed(tmp_path, capfd):
    inputs = {"x": (FLOAT, [2, 2]), "p": (INT64, [4]), "a": (INT64, [2])}
    proto = model([node("Pad", ["x", "p", "", "a"], ["y"], name="pad_here")], inputs, ["y"])
    assert "Pad 'pad_here'" in refusal(save(tmp_path / "m.onnx", proto)).problem
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is empty"),
        (b"\x00\xff garbage", "not an ONNX model"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is a pointer of Git LFS"),
    ],
)
def test_a_file_that_is_not_a_model_is_refused(tmp_path, content, complaint):
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    assert complaint in refusal(path).problem


def test_a_truncated_model_is_refused(tmp_path):
    path = save(tmp_path / "m.onnx", linear())
    path.write_bytes(path.read_bytes()[:-100])
    assert "not an ONNX model, or a truncated one" in refusal(path).problem


def test_a_missing_file_and_a_directory_are_refused(tmp_path):
    assert refusal(tmp_path / "none.onnx").problem == "no such file"
    assert "is a directory" in refusal(tmp_path).problem


def test_a_graph_that_reads_an_undefined_value_is_refused(tmp_path):
    proto = linear()
    proto.graph.node[1].input[0] = "nowhere"
    assert "not a valid ONNX model" in refusal(save(tmp_path / "m.onnx", proto)).problem


def test_shapes_that_contradict_each_other_are_refused(tmp_path):
    proto = linear(batch=3)
    proto.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 15
    assert "15" in refusal(save(tmp_path / "m.onnx", proto)).problem


@pytest.mark.parametrize(
    ("opset", "problem"),
    [(99, "there is no opset 99: this release of onnx knows"), (1, "cannot be converted from opset 18 to 1: ")],
)
def test_an_impossible_opset_is_refused_by_inspection(tmp_path, opset, problem):
    proto = model([node("BatchNormalization", ["x", *"abcd"], ["y"])], {"x": (FLOAT, [1, 3, 4])}, ["y"],
                 {name: random(3) for name in "abcd"})  # fmt: skip
    path = save(tmp_path / "m.onnx", proto)
    told = refusal(path, opset=opset).problem
    assert problem in told and "/project/" not in told
    with pytest.raises(InputError) as caught:
        inspect(path, opset=opset)
    assert caught.value.problem == told


@pytest.mark.parametrize(
    ("operator", "x", "w", "shapes"),
    [("MatMul", ["n", 4], (5, 3), r"\[n, 4\] and \[5, 3\]"), ("Gemm", [1, 4], (5, 3), r"\[1, 4\] and \[5, 3\]"),
     ("Add", [1, 4], (5, 3), r"\[1, 4\] and \[5, 3\]")],
)  # fmt: skip
def test_operands_that_do_not_fit_are_named_with_node_and_shapes(tmp_path, operator, x, w, shapes):
    proto = model([node(operator, ["x", "w"], ["y"], name="/fc")], {"x": (FLOAT, x)}, ["y"], {"w": random(*w)})
    path = save(tmp_path / "m.onnx", proto)
    for look in (refusal, inspect):
        with pytest.raises(InputError, match=f"{operator} '/fc' cannot take tensors of the shapes {shapes}"):
            raise look(path)


def test_tvms_messages_are_quoted_without_its_notation(tmp_path):
    proto = model([node("Conv", ["x", "w"], ["y"])], {"x": (FLOAT, [1, 3, 8, 8])}, ["y"], {"w": random(8, 4, 3, 3)})
    told = refusal(save(tmp_path / "m.onnx", proto)).problem
    assert "data channel size is 3 while the weight input channel size" in told and "T.int64" not in told


def test_inspection_refuses_exactly_the_operators_without_an_importer():
    imported = supported_operators() - MICROSOFT_ONLY | REWRITES.keys()
    for name in NEVER_IMPORTED:
        assert name not in imported, name


def test_slices_of_axes_that_depend_on_the_data_are_refused(tmp_path):
    inputs = {"x": (FLOAT, [16, 8]), "axis": (onnx.TensorProto.INT64, [1])}
    proto = model(
        [node("Slice", ["x", "zero", "zero", "axis"], ["y"], name="n")], inputs, ["y"], {"zero": np.array([0])}
    )
    with pytest.raises(
        InputError, match="the axes, the strides or the number of the bounds of Slice 'n' depend on the data"
    ):
        raise refusal(save(tmp_path / "m.onnx", proto))


def test_ranks_that_depend_on_a_dynamic_dimension_are_refused(tmp_path):
    proto = model([node("Squeeze", ["x"], ["y"], name="n")], {"x": (FLOAT, ["d", 1, 8])}, ["y"])
    with pytest.raises(InputError, match="the rank of the output of Squeeze 'n' depends on"):
        raise refusal(save(tmp_path / "m.onnx", proto))


def test_indices_of_a_constant_do_not_depend_on_the_data(tmp_path):
    proto = model([node("NonZero", ["c"], ["y"])], {"x": (FLOAT, [4])}, ["y"], {"c": np.array([0.0, 1, 1], np.float32)})
    proto.graph.node.append(node("Relu", ["x"], ["z"]))
    path = save(tmp_path / "m.onnx", proto)
    inspect(path)
    assert read(path).signature.outputs[0].shape == (1, 2)


# --- external data ---


def external(tmp_path, location):
    path = tmp_path / "m.onnx"
    onnx.save(linear(batch=3), path, save_as_external_data=True, location=location, size_threshold=0)
    return path


def test_external_data_beside_the_model_is_read(tmp_path):
    assert set(read(external(tmp_path, "m.onnx.data")).params) == {"fc_weight"}


def test_external_data_elsewhere_must_be_listed(tmp_path):
    path = external(tmp_path, "weights.bin")
    error = refusal(path)
    assert "not listed: weights.bin" in error.problem
    assert "files: [" in error.remedy
    assert read(path, files=[str(tmp_path / "weights.bin")]).params


def test_linked_external_data_is_refused(tmp_path):
    path = external(tmp_path, "m.onnx.data")
    (tmp_path / "m.onnx.data").rename(tmp_path / "blob")
    (tmp_path / "m.onnx.data").symlink_to("blob")
    error = refusal(path)
    assert "is a symbolic link" in error.problem and f"cp -rL {tmp_path} " in error.remedy


def test_missing_external_data_is_refused(tmp_path):
    path = external(tmp_path, "m.onnx.data")
    (tmp_path / "m.onnx.data").unlink()
    assert "'m.onnx.data' is missing" in refusal(path).problem


def test_truncated_external_data_is_refused(tmp_path):
    path = external(tmp_path, "m.onnx.data")
    data = tmp_path / "m.onnx.data"
    data.write_bytes(data.read_bytes()[:64])
    refusal(path)


def test_external_data_outside_the_models_directory_is_refused(tmp_path):
    path = external(tmp_path, "m.onnx.data")
    proto = onnx.load(path, load_external_data=False)
    for entry in proto.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = "../../etc/passwd"
    error = refusal(save(path, proto))
    assert "outside the model's directory" in error.problem and "location='m.onnx.data'" in error.remedy


def test_external_data_at_an_absolute_path_is_refused(tmp_path):
    path = external(tmp_path, "m.onnx.data")
    proto = onnx.load(path, load_external_data=False)
    for entry in proto.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = str(tmp_path / "m.onnx.data")
    error = refusal(save(path, proto))
    assert "absolute path" in error.problem and "location='m.onnx.data'" in error.remedy


DYNAMIC_POOLINGS = {
    "the indices of its maxima need fixed dimensions": (["y", "positions"], {"kernel_shape": [2, 2]}),
    "its last window covers only padding": (
        ["y"],
        {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1},
    ),
}


@pytest.mark.parametrize("reason", DYNAMIC_POOLINGS)
def test_poolings_that_need_fixed_dimensions_are_refused(tmp_path, reason):
    outputs, values = DYNAMIC_POOLINGS[reason]
    proto = model([node("MaxPool", ["x"], outputs, **values)], {"x": (FLOAT, [1, 2, "h", 8])}, outputs)
    problem = refusal(save(tmp_path / "m.onnx", proto)).problem
    assert reason in problem and "`inputs: {x: {shape: [1, 2, SIZE, 8]}}`" in problem


def test_a_squeeze_whose_rank_depends_on_sizes_names_the_shapes_to_fix(tmp_path):
    proto = model([node("Squeeze", ["x"], ["y"])], {"x": (FLOAT, ["n", 3, 1]), "of_no_use": (FLOAT, [2])}, ["y"])
    error = refusal(save(tmp_path / "m.onnx", proto))
    assert "the rank of the output of Squeeze" in error.problem
    assert error.remedy.endswith("or fix the sizes: `inputs: {x: {shape: [SIZE, 3, 1]}}`.")


def test_indices_of_maxima_in_large_windows_are_refused(tmp_path):
    outputs = ["y", "positions"]
    proto = model([node("MaxPool", ["x"], outputs, kernel_shape=[17, 17])], {"x": (FLOAT, [1, 1, 20, 20])}, outputs)
    assert "in windows of at most 256 elements" in refusal(save(tmp_path / "m.onnx", proto)).problem


def test_a_pooling_that_rounds_up_within_its_image_supports_dynamic_dimensions(tmp_path):
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}
    read(
        save(
            tmp_path / "m.onnx", model([node("MaxPool", ["x"], ["y"], **window)], {"x": (FLOAT, [1, 2, "h", 8])}, ["y"])
        )
    )
