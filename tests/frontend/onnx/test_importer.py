import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.children import WITHOUT_TORCH
from tests.frontend.compiled import run_compiled
from tests.frontend.onnx.models import FLOAT, INT64, linear, model, random, read, refusal, runtime, save
from tvmake.frontend.onnx.inputs import inspect

node = helper.make_node


# --- results of an import ---


def test_weights_become_trailing_parameters_under_their_names_and_results_agree(tmp_path):
    proto = linear(batch=3)
    imported = read(save(tmp_path / "m.onnx", proto))
    assert list(imported.params) == ["fc_weight"]
    x = random(3, 16)
    np.testing.assert_allclose(run_compiled(imported, [x])[0], runtime(proto, [x])[0], rtol=1e-4, atol=1e-5)


def test_the_signature_keeps_original_names_beside_the_relax_ones(tmp_path):
    imported = read(save(tmp_path / "m.onnx", linear()))
    (x,), (y,) = imported.signature.inputs, imported.signature.outputs
    assert (x.name, x.relax_name, x.shape, x.dtype) == ("input.1", "input_1", ("N", 16), "float32")
    assert (y.name, y.relax_name, y.shape, y.dtype) == ("0", "input_0", ("N", 32), "float32")


def test_inspection_returns_the_same_inputs_as_the_import_without_importing_tvm(tmp_path):
    path = save(tmp_path / "m.onnx", linear())
    assert inspect(path).inputs == read(path).signature.inputs
    code = f"import sys; from tvmake.frontend.onnx.inputs import inspect; inspect(__import__('pathlib').Path({str(path)!r})); assert 'tvm' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_model_larger_than_the_set_aside_limit_keeps_its_weights(tmp_path):
    weight = random(600, 600)
    proto = model([node("MatMul", ["x", "w"], ["y"])], {"x": (FLOAT, [2, 600])}, ["y"], {"w": weight})
    imported = read(save(tmp_path / "m.onnx", proto))
    np.testing.assert_array_equal(imported.params["w"].numpy(), weight)
    x = random(2, 600, seed=3)
    np.testing.assert_allclose(run_compiled(imported, [x])[0], x @ weight, rtol=1e-3, atol=1e-4)


def test_embedding_indices_get_the_range_of_the_table(tmp_path):
    proto = model([node("Gather", ["t", "i"], ["y"])], {"i": (INT64, [1, 7])}, ["y"], {"t": random(50, 8)})
    path = save(tmp_path / "m.onnx", proto)
    assert read(path).signature.inputs[0].range == (0, 49)
    assert inspect(path).inputs[0].range == (0, 49)
    assert read(path).signature.inputs[0].indices == inspect(path).inputs[0].indices == (-50, 49)
    assert read(path, inputs={"i": {"range": [0, 9]}}).signature.inputs[0].range == (0, 9)


def test_initializers_listed_as_inputs_are_weights_not_inputs(tmp_path):
    proto = linear(batch=3)
    proto.graph.input.append(helper.make_tensor_value_info("fc.weight", FLOAT, [16, 32]))
    imported = read(save(tmp_path / "m.onnx", proto))
    assert [spec.name for spec in imported.signature.inputs] == ["input.1"]
    run_compiled(imported, [random(3, 16)])


def test_negative_gather_indices_at_run_time_count_from_the_end(tmp_path):
    proto = model([node("Gather", ["x", "i"], ["y"], axis=1)], {"x": (FLOAT, [2, 5]), "i": (INT64, [3])}, ["y"])
    imported = read(save(tmp_path / "m.onnx", proto))
    x = random(2, 5)
    np.testing.assert_array_equal(run_compiled(imported, [x, np.array([-1, -5, 2])])[0], x[:, [-1, 0, 2]])
    assert 'mode="fast"' not in imported.module.script()


def test_a_dynamic_shape_can_be_an_output(tmp_path):
    proto = model([node("Shape", ["x"], ["s"]), node("Relu", ["x"], ["y"])], {"x": (FLOAT, ["N", 4])}, ["s", "y"])
    imported = read(save(tmp_path / "m.onnx", proto))
    shape, y = run_compiled(imported, [random(3, 4)])
    assert shape.tolist() == [3, 4] and y.shape == (3, 4)


def test_an_input_of_extent_0_stays_static(tmp_path):
    proto = model([node("Concat", ["x", "z"], ["y"], axis=0)], {"x": (FLOAT, [2, 3]), "z": (FLOAT, [0, 3])}, ["y"])
    assert read(save(tmp_path / "m.onnx", proto)).signature.inputs[1].shape == (0, 3)


# --- dimensions ---


def test_unnamed_dimensions_are_distinct_and_named_ones_are_shared(tmp_path):
    proto = model(
        [node("Relu", ["a"], ["x"]), node("Relu", ["b"], ["y"])],
        {"a": (FLOAT, [None, None, "T"]), "b": (FLOAT, ["T", None])},
        ["x", "y"],
    )
    a, b = read(save(tmp_path / "m.onnx", proto)).signature.inputs
    assert a.shape == ("a_d0", "a_d1", "T")
    assert b.shape == ("T", "b_d1")


@pytest.mark.parametrize("mark", ["?", "*", "-1", "None", "unknown"])
def test_a_placeholder_is_not_a_dimension_name(tmp_path, mark: str):
    proto = model([node("Relu", ["a"], ["y"])], {"a": (FLOAT, [1, mark, mark])}, ["y"])
    assert read(save(tmp_path / "m.onnx", proto)).signature.inputs[0].shape == (1, "a_d1", "a_d2")


def test_a_configured_shape_binds_every_occurrence_of_a_dimension(tmp_path):
    proto = model([node("Add", ["a", "b"], ["y"])], {"a": (FLOAT, ["N", 4]), "b": (FLOAT, ["N", 4])}, ["y"])
    path = save(tmp_path / "m.onnx", proto)
    signature = read(path, inputs={"a": {"shape": [5, 4]}}).signature
    assert [spec.shape for spec in (*signature.inputs, *signature.outputs)] == [(5, 4)] * 3
    assert read(path, inputs={"a": {"shape": ["batch", 4]}}).signature.inputs[1].shape == ("batch", 4)


def test_dimension_names_that_are_not_identifiers_become_distinct_identifiers(tmp_path):
    proto = model(
        [node("Relu", ["a"], ["x"]), node("Relu", ["b"], ["y"])],
        {"a": (FLOAT, ["batch-size", "past + 1"]), "b": (FLOAT, ["batch size", "past"])},
        ["x", "y"],
    )
    a, b = read(save(tmp_path / "m.onnx", proto)).signature.inputs
    assert a.shape[0] != b.shape[0]
    assert b.shape[1] == "past" and a.shape[1] == "past + 1"


@pytest.mark.parametrize(
    ("inputs", "complaint"),
    [
        ({"input1": {"shape": [1, 16]}}, "no input 'input1'"),
        ({"input.1": {"dtype": "float16"}}, "float32, not float16"),
        ({"input.1": {"shape": [1, 16, 1]}}, "has 2 axes, not 3"),
        ({"input.1": {"shape": [1, 8]}}, "axis 1 of input 'input.1' is 16, not 8"),
        ({"input.1": {"shape": [1, "width"]}}, "axis 1 of input 'input.1' is 16, not width"),
    ],
)
def test_a_config_that_contradicts_the_model_is_refused_with_the_models_inputs(tmp_path, inputs, complaint):
    error = refusal(save(tmp_path / "m.onnx", linear()), inputs=inputs)
    assert complaint in error.problem
    assert "input.1 float32[N, 16]" in error.remedy


def test_the_error_for_a_misspelt_input_suggests_the_likely_one(tmp_path):
    error = refusal(save(tmp_path / "m.onnx", linear()), inputs={"input_1": {"shape": [1, 16]}})
    assert "did you mean 'input.1'?" in error.remedy


def test_an_input_without_a_rank_needs_a_shape(tmp_path):
    proto = model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, None)}, ["y"])
    path = save(tmp_path / "m.onnx", proto)
    assert "no known rank" in refusal(path).problem
    assert read(path, inputs={"x": {"shape": [2, "n"]}}).signature.outputs[0].shape == (2, "n")


# --- opsets, determinism ---


def test_an_old_model_with_attribute_broadcasting_is_right(tmp_path):
    proto = model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, [2, 3, 4])}, ["y"], {"b": random(3)}, opset=6)
    proto.graph.node[0].CopyFrom(node("Add", ["x", "b"], ["y"], broadcast=1, axis=1))
    imported = read(save(tmp_path / "m.onnx", proto))
    x = random(2, 3, 4)
    np.testing.assert_allclose(run_compiled(imported, [x])[0], x + random(3).reshape(3, 1), rtol=1e-6)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize(
    ("operator", "scales"),
    [("Upsample", [2, 2]), ("Upsample", [1.5, 1.7]), ("Resize", [2, 3]), ("Resize", [0.5, 0.7])],
)
def test_an_old_resize_keeps_its_coordinates(tmp_path, mode, operator, scales):
    constants = {"s": np.float32([1, 1, *scales])}
    opset = 9 if operator == "Upsample" else 10
    proto = model([node(operator, ["x", "s"], ["y"], mode=mode)], {"x": (FLOAT, [1, 2, 6, 6])}, ["y"], constants, opset)
    x = random(1, 2, 6, 6)
    found = run_compiled(read(save(tmp_path / "m.onnx", proto)), [x])[0]
    np.testing.assert_allclose(found, runtime(proto, [x])[0], rtol=1e-5, atol=1e-6)


def test_old_resizes_whose_nearest_values_are_not_determined_are_refused(tmp_path):
    constants = {"s": np.float32([1, 1, 0.4, 2])}
    proto = model([node("Resize", ["x", "s"], ["y"])], {"x": (FLOAT, [1, 2, 6, 6])}, ["y"], constants, opset=10)
    assert "at opset 11" in refusal(save(tmp_path / "m.onnx", proto)).remedy


@pytest.mark.parametrize("positions", [[0, 5], [[0, 0], [1, 2]]])
def test_sparse_weights_are_made_dense(tmp_path, positions):
    proto = model([node("Add", ["x", "w"], ["y"])], {"x": (FLOAT, [2, 3])}, ["y"], {})
    values = numpy_helper.from_array(np.float32([2, 3]), "w")
    indices = numpy_helper.from_array(np.int64(positions), "w_places")
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2, 3]))
    x = random(2, 3)
    found = run_compiled(read(save(tmp_path / "m.onnx", proto)), [x])[0]
    np.testing.assert_allclose(found, x + np.float32([[2, 0, 0], [0, 0, 3]]), rtol=1e-6)


def test_a_sparse_constant_is_made_dense(tmp_path):
    values, indices = numpy_helper.from_array(np.float32([2, 3]), "v"), numpy_helper.from_array(np.int64([0, 5]), "p")
    constant = node("Constant", [], ["w"], sparse_value=helper.make_sparse_tensor(values, indices, [2, 3]))
    proto = model([constant, node("Add", ["x", "w"], ["y"])], {"x": (FLOAT, [2, 3])}, ["y"], {})
    x = random(2, 3)
    found = run_compiled(read(save(tmp_path / "m.onnx", proto)), [x])[0]
    np.testing.assert_allclose(found, x + np.float32([[2, 0, 0], [0, 0, 3]]), rtol=1e-6)


def test_the_opset_option_converts_first(tmp_path):
    path = save(tmp_path / "m.onnx", linear())
    assert read(path).notes["imported_opset"] == 18
    assert read(path, opset=21).notes["imported_opset"] == 21


_DIGEST = """
import hashlib, sys
from pathlib import Path
from tests.frontend.onnx.models import read
import tvm
imported = read(Path(sys.argv[1]))
digest = hashlib.sha256(tvm.ir.save_json(imported.module).encode())
for name, value in imported.params.items():
    digest.update(name.encode() + value.numpy().tobytes())
print(digest.hexdigest())
"""


def test_the_same_file_gives_the_same_bytes_whatever_the_hash_seed(tmp_path):
    weights = {"W": random(1, 32, 8), "R": random(1, 32, 8, seed=1), "roi": np.zeros(0, np.float32)}
    weights["scales"] = np.array([1, 0.7, 1.3], np.float32)
    proto = model(
        [
            node("LSTM", ["x", "W", "R"], ["", "h"], hidden_size=8),
            node("Resize", ["h", "roi", "scales"], ["r"], mode="linear"),
            node("LpNormalization", ["r"], ["y"]),
        ],
        {"x": (FLOAT, [6, 4, 8])}, ["y"], weights,
    )  # fmt: skip
    path = save(tmp_path / "m.onnx", proto)
    digests = {
        subprocess.run(
            [sys.executable, "-c", WITHOUT_TORCH + _DIGEST, str(path)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[3],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "4242")
    }
    assert len(digests) == 1 and len(digests.pop().strip()) == hashlib.sha256().digest_size * 2


def test_a_models_own_functions_are_inlined(tmp_path):
    proto = model([node("Relu", ["x"], ["y"])], {"x": (FLOAT, [3])}, ["y"], domains=["mine"])
    body = [node("Mul", ["a", "a"], ["b"])]
    proto.functions.append(helper.make_function("mine", "Square", ["a"], ["b"], body, [helper.make_opsetid("", 18)]))
    proto.graph.node[0].CopyFrom(node("Square", ["x"], ["y"], domain="mine"))
    x = random(3)
    np.testing.assert_allclose(run_compiled(read(save(tmp_path / "m.onnx", proto)), [x])[0], x * x, rtol=1e-6)


def test_names_that_collide_in_relax_stay_apart(tmp_path):
    proto = model(
        [node("Sub", ["a.b", "a_b"], ["h"]), node("Add", ["h", "onnx::a_b"], ["y"])],
        {"a.b": (FLOAT, [100]), "a_b": (FLOAT, [100])}, ["y"], {"onnx::a_b": random(100)},
    )  # fmt: skip
    imported = read(save(tmp_path / "m.onnx", proto))
    assert (
        numpy_helper.to_array(proto.graph.initializer[0]).tolist()
        == next(iter(imported.params.values())).numpy().tolist()
    )
    a, b = random(100, seed=1), random(100, seed=2)
    np.testing.assert_allclose(run_compiled(imported, [a, b])[0], a - b + random(100), rtol=1e-5, atol=1e-6)


def test_the_digits_network_agrees_with_onnx_runtime():
    path = Path(__file__).parents[3] / "resources" / "digits.onnx"
    imported = read(path)
    (spec,) = imported.signature.inputs
    x = random(*(dim if isinstance(dim, int) else 3 for dim in spec.shape))
    np.testing.assert_allclose(run_compiled(imported, [x])[0], runtime(onnx.load(path), [x])[0], rtol=1e-4, atol=1e-4)
