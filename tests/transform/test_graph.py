"""Folding, layout and dimensions change a network's form, but not its values or interface."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tvm
from onnx import helper

from tests.children import WITHOUT_TORCH
from tests.frontend.onnx import models as onnx_models
from tests.transform.nets import (
    IMAGE,
    Transformed,
    calls,
    classifier,
    classifier_onnx,
    imported,
    operators,
    run,
    transformed,
)
from tvmake.artifact import stage_json
from tvmake.artifact.dims import DimBounds
from tvmake.artifact.module_files import save_module
from tvmake.artifact.weights.tensors import save_params
from tvmake.errors import InputError
from tvmake.frontend.imported import ImportedModel
from tvmake.ir.bounds import bounds_of, with_bounds
from tvmake.quantize.precision import PrecisionConfig
from tvmake.transform import graph
from tvmake.transform.graph import bound_signature
from tvmake.transform.layouts.choices import CHOSEN_LAYOUT
from tvmake.transform.options import TransformOptions, TransformRequest

from tvm import relax  # isort: skip

random = onnx_models.random
node = helper.make_node


def agrees(made: Transformed, expected: np.ndarray, *inputs: np.ndarray) -> None:
    """The output is ``expected`` to float32's accuracy, measured against its largest element."""
    got = run(made, *(inputs or (IMAGE,)))
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    """The classifier in ONNX Runtime."""
    probabilities = onnx_models.runtime(classifier_onnx(), [IMAGE])[0]
    assert probabilities.min() > 0.01, "a saturated softmax would hide errors"
    return probabilities


# --- batch norm -------------------------------------------------------------------------------------------------------


def test_batch_norms_are_folded_into_the_convolutions_before_them(expected: np.ndarray):
    made = transformed()
    # Of each convolution and batch norm, the convolution and one addition are left.
    assert operators(made[0]) == {
        "nn.conv2d": 2, "add": 2, "nn.relu": 1, "nn.max_pool2d": 1, "mean": 1, "reshape": 1, "matmul": 1, "nn.softmax": 1,
    }  # fmt: skip
    agrees(made, expected)


def test_without_folding_weights_stay_unchanged(expected: np.ndarray):
    made = transformed(fold_batch_norm=False)
    assert operators(made[0])["multiply"] == 2
    np.testing.assert_array_equal(next(iter(made[1].values())).numpy(), random(4, 3, 3, 3, seed=1))
    agrees(made, expected)


def test_a_batch_norm_with_no_convolution_before_it_is_computed():
    constants = {
        "s": random(3, seed=1),
        "b": random(3, seed=2),
        "m": random(3, seed=3),
        "v": random(3, seed=4) ** 2 + 1,
    }
    net = onnx_models.model(
        [node("BatchNormalization", ["image", "s", "b", "m", "v"], ["y"])],
        {"image": (onnx_models.FLOAT, [1, 3, 8, 8])}, ["y"], constants,
    )  # fmt: skip
    made = transformed(imported(net))
    assert operators(made[0])["nn.batch_norm"] == 0
    agrees(made, onnx_models.runtime(net, [IMAGE])[0])


# --- layout -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize("base", ["float32", "float16_acc32"])
def test_nhwc_turns_convolutions_and_pooling_and_nothing_outside(expected: np.ndarray, fold: bool, base: str):
    made = transformed(layout="NHWC", fold_batch_norm=fold, precision=PrecisionConfig(base=base))
    module = made[0]
    assert {(str(c.attrs.data_layout), str(c.attrs.kernel_layout)) for c in calls(module, "nn.conv2d")} == {
        ("NHWC", "OHWI")
    }
    assert [str(call.attrs.layout) for call in calls(module, "nn.max_pool2d")] == ["NHWC"]
    assert [int(dim) for dim in module["main"].params[0].ty.shape] == [1, 3, 8, 8]
    assert [int(dim) for dim in module["main"].ret_ty.shape] == [1, 5]
    # One transpose of the input, one of the [1, 1, 1, 8] before the classifier; weights are turned beforehand.
    assert operators(module)["permute_dims"] == 2
    if base == "float32":
        agrees(made, expected)
    else:
        assert np.abs(run(made, IMAGE) - expected).max() < 1e-3


def test_an_output_that_a_convolution_gives_keeps_its_layout():
    net = onnx_models.model(
        [node("Conv", ["image", "w"], ["y"])],
        {"image": (onnx_models.FLOAT, [1, 3, 8, 8])}, ["y"], {"w": random(5, 3, 3, 3)},
    )  # fmt: skip
    made = transformed(imported(net), layout="NHWC")
    assert [int(dim) for dim in made[0]["main"].ret_ty.shape] == [1, 5, 6, 6]
    agrees(made, onnx_models.runtime(net, [IMAGE])[0])


def test_a_network_that_tvm_cannot_convert_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(graph, "count_axes_from_front", lambda module: module)
    nodes = [node("Conv", ["image", "w"], ["a"]), node("Squeeze", ["a", "axes"], ["y"])]
    image = {"image": (onnx_models.FLOAT, [1, 3, 8, 8])}
    net = onnx_models.model(nodes, image, ["y"], {"w": random(5, 3, 3, 3), "axes": np.array([-4])})
    with pytest.raises(
        InputError, match=r"transform.layout: TVM cannot convert this network to NHWC: .*\n.*`transform.layout: keep`"
    ):
        transformed(imported(net), layout="NHWC")


def test_the_layout_a_network_has_changes_nothing():
    kept, chosen = transformed()[0], transformed(layout="NCHW")[0]
    assert tvm.ir.save_json(chosen["main"]) == tvm.ir.save_json(kept["main"])
    assert chosen.attrs[CHOSEN_LAYOUT] == "NCHW"
    assert CHOSEN_LAYOUT not in (kept.attrs or {})


AROUND_A_CONVOLUTION = {
    "depthwise": ([node("Conv", ["c", "depth"], ["y"], group=4)], {"depth": random(4, 1, 3, 3)}),
    "grouped": ([node("Conv", ["c", "pairs"], ["y"], group=2)], {"pairs": random(6, 2, 3, 3)}),
    "transposed": ([node("ConvTranspose", ["c", "w4"], ["y"], strides=[2, 2])], {"w4": random(4, 2, 3, 3)}),
    "average": ([node("AveragePool", ["c"], ["y"], kernel_shape=[3, 3], pads=[1] * 4)], {}),
    "concat": ([node("Concat", ["c", "image"], ["y"], axis=1)], {}),
    "flatten": ([node("Flatten", ["c"], ["y"])], {}),
    "bias": ([node("Add", ["c", "channel"], ["d"]), node("Mul", ["d", "row"], ["y"])],
             {"channel": random(4, 1, 1), "row": random(8)}),
    "softmax": ([node("Softmax", ["c"], ["y"], axis=1)], {}),
    "reduce": ([node("ReduceMax", ["c", "axes"], ["y"], keepdims=0)], {"axes": np.array([1])}),
    "split": ([node("Split", ["c"], ["d", "e"], axis=1, num_outputs=2), node("Mul", ["d", "e"], ["y"])], {}),
    "pad": ([node("Pad", ["c", "pads"], ["y"])], {"pads": np.array([0, 0, 1, 0, 0, 0, 2, 1])}),
    "upsample": ([node("Resize", ["c", "", "scales"], ["y"], mode="linear")],
                 {"scales": np.array([1, 1, 2, 2], "float32")}),
    "layer norm": ([node("LayerNormalization", ["c", "scale", "shift"], ["y"], axis=-1)],
                   {"scale": random(8), "shift": random(8, seed=4)}),
}  # fmt: skip


@pytest.mark.parametrize("name", AROUND_A_CONVOLUTION)
def test_operators_around_a_convolution_keep_their_values_in_nhwc(name: str):
    nodes, constants = AROUND_A_CONVOLUTION[name]
    net = onnx_models.model(
        [node("Conv", ["image", "w"], ["c"], pads=[1] * 4), *nodes],
        {"image": (onnx_models.FLOAT, [1, 3, 8, 8])}, ["y"], {"w": random(4, 3, 3, 3, seed=1), **constants},
    )  # fmt: skip
    made = transformed(imported(net), layout="NHWC")
    assert "NHWC" in {str(call.attrs.data_layout) for call in calls(made[0], "nn.conv2d")}
    agrees(made, onnx_models.runtime(net, [IMAGE])[0])


def channels_last_model() -> tuple[ImportedModel, np.ndarray]:
    """A network written in NHWC, as TFLite's are, and the transposed weight of its convolution."""
    weight = random(3, 3, 3, 4)
    x = relax.Var("x", relax.TensorType((1, 8, 8, 3), "float32"))
    w = relax.Var("w", relax.TensorType(weight.shape, "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w], attrs={"num_input": 1}):
        with builder.dataflow():
            c = builder.emit(relax.op.nn.conv2d(x, w, padding=1, data_layout="NHWC", kernel_layout="HWIO"))
            p = builder.emit(relax.op.nn.max_pool2d(c, [2, 2], [2, 2], layout="NHWC"))
            output = builder.emit_output(relax.op.nn.relu(p))
        builder.emit_func_output(output)
    return ImportedModel(builder.get(), {"w": weight}, classifier().signature), weight


def test_a_channels_last_network_becomes_nchw_inside():
    model, weight = channels_last_model()
    x = random(1, 8, 8, 3, seed=5)
    made = transformed(model, layout="NCHW")
    assert [(str(c.attrs.data_layout), str(c.attrs.kernel_layout)) for c in calls(made[0], "nn.conv2d")] == [
        ("NCHW", "OIHW")
    ]
    assert [int(dim) for dim in made[0]["main"].ret_ty.shape] == [1, 4, 4, 4]
    np.testing.assert_array_equal(made[1]["param_0"].numpy(), weight.transpose(3, 2, 0, 1))
    agrees(made, run(transformed(model), x), x)


# --- dimensions and signature -----------------------------------------------------------------------------------------


def test_a_bound_dimension_is_fixed_in_module_and_signature():
    model = classifier("batch")
    made = transformed(model, dims={"batch": 3})
    signature = bound_signature(model.signature, made[0])
    assert [spec.shape for spec in (*signature.inputs, *signature.outputs)] == [(3, 3, 8, 8), (3, 5)]
    assert list(relax.analysis.defined_symbolic_vars(made[0]["main"])) == []
    images = random(3, 3, 8, 8, seed=8)
    agrees(made, onnx_models.runtime(classifier_onnx("batch"), [images])[0], images)


def test_an_unbound_dimension_stays_dynamic_under_its_name():
    model = classifier("batch")
    made = transformed(model)
    signature = bound_signature(model.signature, made[0])
    assert signature == model.signature
    assert signature.inputs[0].shape == ("batch", 3, 8, 8)
    images = random(2, 3, 8, 8, seed=8)
    agrees(made, onnx_models.runtime(classifier_onnx("batch"), [images])[0], images)


def test_binding_keeps_names_dtypes_and_ranges_of_the_signature():
    model = classifier("batch")
    bound = bound_signature(model.signature, transformed(model, dims={"batch": 2})[0])
    for before, after in zip(
        model.signature.inputs + model.signature.outputs, bound.inputs + bound.outputs, strict=True
    ):
        assert after.model_copy(update={"shape": before.shape}) == before


@pytest.mark.parametrize(
    ("batch", "hint"), [("batch", "it has: batch"), (1, "all its shapes are fixed")], ids=["dynamic", "fixed"]
)
def test_an_unknown_dimension_is_refused_with_the_known_ones(batch: int | str, hint: str):
    with pytest.raises(InputError, match="the model has no dynamic dimension 'batsh'") as caught:
        transformed(classifier(batch), dims={"batsh": 3})
    assert caught.value.remedy == hint


@pytest.mark.parametrize("base", ["float32", "float16", "int8_weights"])
def test_bounds_of_a_dimension_are_in_module_and_signature(base: str):
    model = classifier("batch")
    module, _ = transformed(model, precision=PrecisionConfig(base=base), dims={"batch": DimBounds(max=8)})
    assert bounds_of(module) == {"batch": (1, 8)}
    signature = bound_signature(model.signature, module)
    assert (signature.inputs[0].shape, signature.bounds) == (("batch", 3, 8, 8), {"batch": (1, 8)})


def test_bounds_of_the_file_apply_unless_the_config_sets_them():
    model = classifier("batch")
    model = replace(model, module=with_bounds(model.module, {"batch": (2, 16)}))
    for size, bounds in ((None, (2, 16)), (DimBounds(max=8), (2, 8)), (DimBounds(min=4), (4, 16)), (16, None)):
        module, _ = transformed(model, dims={} if size is None else {"batch": size})
        assert bounds_of(module).get("batch") == bounds


@pytest.mark.parametrize(
    ("size", "asked"),
    [
        (17, "17"),
        (DimBounds(max=17), "at most 17"),
        (DimBounds(min=1, max=8), "1 to 8"),
        (DimBounds(max=1), "at most 1"),
    ],
)
def test_sizes_and_bounds_beyond_the_files_are_refused_with_both(size: int | DimBounds, asked: str):
    model = classifier("batch")
    model = replace(model, module=with_bounds(model.module, {"batch": (2, 16)}))
    with pytest.raises(InputError, match=f"^dims.batch: should be {asked}, but the network takes 2 to 16"):
        transformed(model, dims={"batch": size})


# --- what the stage writes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["keep", "NHWC"])
@pytest.mark.parametrize("base", ["float32", "float16"])
def test_parameters_are_the_trailing_arguments_in_order(layout: str, base: str):
    module, params = transformed(layout=layout, precision=PrecisionConfig(base=base))
    arguments = list(module["main"].params)
    assert [str(var.name) for var in arguments] == ["image", *params]
    for var, value in zip(arguments[1:], params.values(), strict=True):
        assert (tuple(map(int, var.ty.shape)), str(var.ty.dtype)) == (tuple(value.shape), str(value.dtype))


TRANSFORM_ELSEWHERE = """
import sys
from pathlib import Path
ballast = [object() for _ in range(int(sys.argv[1]))]
from tvmake.transform.options import TransformRequest
from tvmake.stages.model.transform import transform_model
paths = [Path(argument) for argument in sys.argv[3:]]
transform_model(*paths[:3], TransformRequest.model_validate_json(sys.argv[2]), *paths[3:])
"""


def test_fresh_processes_and_directories_give_the_same_bytes(tmp_path: Path):
    model = classifier("batch")
    inputs = [tmp_path / name for name in ("model.json", "model.params", "signature.json")]
    save_module(model.module, inputs[0])
    save_params(model.params, inputs[1])
    stage_json.save(model.signature, inputs[2])
    request = TransformRequest(
        precision=PrecisionConfig(base="float16", never=["nn.relu"], follow=["nn.softmax"]),
        transform=TransformOptions(layout="NHWC"),
        dims={"batch": 2},
    )
    written = set()
    for number, name in enumerate(["a", "a-rather-longer-directory-name", "c"]):
        place = tmp_path / name
        place.mkdir()
        outputs = [place / part for part in ("module.json", "module.params", "bound.json")]
        command = [
            sys.executable,
            "-c",
            WITHOUT_TORCH + TRANSFORM_ELSEWHERE,
            str(number * 777),
            request.model_dump_json(),
        ]
        environment = {"PYTHONHASHSEED": str(number), "PATH": "/usr/bin:/bin"}
        subprocess.run([*command, *map(str, inputs + outputs)], check=True, cwd=place, env=environment)
        written.add(tuple(file.read_bytes() for file in outputs))
    assert len(written) == 1
