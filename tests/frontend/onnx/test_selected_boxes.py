"""The number of boxes that NonMaxSuppression selects depends on the data: rows, and their number, agree with ONNX Runtime."""

import numpy as np
import pytest
import tvm
from onnx import helper

from tests.frontend.compiled import run_compiled
from tests.frontend.onnx.models import FLOAT, INT64, model, read, refusal, runtime, save
from tests.transform.nets import transformed
from tests.unoptimised import UNOPTIMISED
from tvmake.codegen.link import generate
from tvmake.codegen.lowering import lower
from tvmake.codegen.options import BuildOptions, PassOptions
from tvmake.transform.graph import bound_signature

from tvm import relax  # isort: skip

CONSTANTS = {
    "limit": np.array([100]), "iou": np.array([0.5], np.float32), "score": np.array([0.1], np.float32), "zero": np.array([0]),
    "one": np.array([1]), "two": np.array([2]), "class_major": np.array([0, 2, 1]),
}  # fmt: skip

NODES = [
    helper.make_node("NonMaxSuppression", ["boxes", "scores", "limit", "iou", "score"], ["selected"]),
    helper.make_node("Shape", ["selected"], ["shape"]),
    helper.make_node("Slice", ["shape", "zero", "one"], ["count"]),
    helper.make_node("Gather", ["selected", "two"], ["column"], axis=1),
    helper.make_node("Squeeze", ["column", "one"], ["numbers"]),
    helper.make_node("Squeeze", ["boxes", "zero"], ["rows"]),
    helper.make_node("Gather", ["rows", "numbers"], ["picked"]),
    helper.make_node("ReduceSum", ["picked", "zero"], ["sum"], keepdims=0),
]


@pytest.fixture(scope="module")
def proto():
    inputs = {"boxes": (FLOAT, [1, 6, 4]), "scores": (FLOAT, [1, 2, 6])}
    return model(NODES, inputs, ["selected", "count", "picked", "sum"], CONSTANTS)


@pytest.fixture(scope="module")
def machine(proto, tmp_path_factory):
    imported = read(save(tmp_path_factory.mktemp("boxes") / "m.onnx", proto))
    module = transformed(imported)[0]
    signature = bound_signature(imported.signature, module)
    assert [len(spec.shape) for spec in signature.outputs] == [2, 1, 2, 1]
    assert not any(isinstance(spec.shape[0], int) for spec in (signature.outputs[0], signature.outputs[2]))
    lowered = lower(module, UNOPTIMISED, [], PassOptions(), 2, rules=False)
    return relax.VirtualMachine(generate(lowered.final, UNOPTIMISED, BuildOptions(), "targets.t"), tvm.cpu())


@pytest.mark.parametrize("least", [0, 0.5, 0.9, 2])
def test_selected_rows_and_their_number_agree_with_onnx_runtime(proto, machine, least):
    """From all boxes down to none."""
    random = np.random.default_rng(1)
    corners = np.sort(random.random((1, 6, 2, 2), np.float32), axis=2).reshape(1, 6, 4)
    scores = random.random((1, 2, 6), np.float32)
    inputs = [corners, np.where(scores > least, scores, 0)]
    for output, expected in zip(machine["main"](*map(tvm.runtime.tensor, inputs)), runtime(proto, inputs), strict=True):
        assert output.shape == expected.shape
        np.testing.assert_allclose(output.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("center", [0, 1])
def test_limits_and_thresholds_may_be_inputs(tmp_path, center):
    layer = helper.make_node(
        "NonMaxSuppression", ["boxes", "scores", "limit", "iou", "score"], ["y"], center_point_box=center
    )
    numbers = {"limit": (INT64, [1]), "iou": (FLOAT, [1]), "score": (FLOAT, [1])}
    proto = model([layer], {"boxes": (FLOAT, [2, 6, 4]), "scores": (FLOAT, [2, 2, 6]), **numbers}, ["y"])
    imported = read(save(tmp_path / "m.onnx", proto))
    random = np.random.default_rng(1)
    boxes = np.sort(random.random((2, 6, 2, 2), np.float32), axis=2).reshape(2, 6, 4)
    scores = random.random((2, 2, 6), np.float32)
    for limit, overlap, least in ((9, 0.5, 0), (1, 0.5, 0), (0, 0.5, 0), (9, 0, 0.4), (2, 1, 0.9)):
        inputs = [boxes, scores, np.array([limit]), np.array([overlap], np.float32), np.array([least], np.float32)]
        np.testing.assert_array_equal(run_compiled(imported, inputs)[0], runtime(proto, inputs)[0])


@pytest.mark.parametrize("count", [24, "n"])
def test_boxes_of_negative_width_or_height_overlap_no_other(tmp_path, count):
    """As ONNX Runtime computes corners of a centre: the lower one may be above the upper one."""
    layer = helper.make_node(
        "NonMaxSuppression", ["boxes", "scores", "limit", "iou", "score"], ["selected"], center_point_box=1
    )
    proto = model([layer], {"boxes": (FLOAT, [2, count, 4]), "scores": (FLOAT, [2, 2, count])}, ["selected"], CONSTANTS)
    random = np.random.default_rng(1)
    sizes = random.choice(np.array([-0.5, 0, 0.4, 0.5], np.float32), (2, 24, 2))
    inputs = [np.concatenate([random.random((2, 24, 2), np.float32), sizes], 2), random.random((2, 2, 24), np.float32)]
    np.testing.assert_array_equal(
        run_compiled(read(save(tmp_path / "m.onnx", proto)), inputs)[0], runtime(proto, inputs)[0]
    )


def test_rows_of_a_dynamic_number_of_boxes_keep_their_own_number(tmp_path):
    """Passes that clean up bindings may not replace it by the number of all boxes."""
    constants = {**CONSTANTS, "limit": np.array([np.iinfo(np.int64).max])}  # torchvision's
    proto = model(NODES[:1], {"boxes": (FLOAT, [1, "n", 4]), "scores": (FLOAT, [1, 2, "n"])}, ["selected"], constants)
    module = transformed(read(save(tmp_path / "m.onnx", proto)))[0]
    module = relax.transform.CanonicalizeBindings()(relax.transform.CanonicalizeBindings()(module))
    lowered = lower(module, UNOPTIMISED, [], PassOptions(), 2, rules=False)
    machine = relax.VirtualMachine(generate(lowered.final, UNOPTIMISED, BuildOptions(), "targets.t"), tvm.cpu())
    random = np.random.default_rng(1)
    for count in (5, 1, 9):
        corners = np.sort(random.random((1, count, 2, 2), np.float32), axis=2).reshape(1, count, 4)
        inputs = [corners, random.random((1, 2, count), np.float32)]
        rows = machine["main"](*map(tvm.runtime.tensor, inputs)).numpy()
        np.testing.assert_array_equal(rows, runtime(proto, inputs)[0])


@pytest.mark.parametrize(("name", "limit"), [("iou", np.nan), ("iou", 1.5), ("score", np.nan)])
def test_limits_that_onnx_runtime_refuses_are_refused(tmp_path, name, limit):
    constants = {**CONSTANTS, name: np.array([limit], np.float32)}
    proto = model(NODES[:1], {"boxes": (FLOAT, [1, 6, 4]), "scores": (FLOAT, [1, 2, 6])}, ["selected"], constants)
    assert f"its {name}_threshold is {limit:g}" in str(refusal(save(tmp_path / "m.onnx", proto)))
