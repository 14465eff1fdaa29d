"""Loops and scans whose number of iterations is known only when the network runs agree with ONNX Runtime."""

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper

from tests.frontend.compiled import run_compiled
from tests.frontend.onnx.models import FLOAT, INT64, model, random, read, refusal, runtime, save
from tests.transform.nets import transformed
from tvmake.codegen.lowering import lower
from tvmake.codegen.on_this_machine import runner
from tvmake.codegen.options import PassOptions
from tvmake.errors import InputError

node = helper.make_node
info = helper.make_tensor_value_info
BOOL = TensorProto.BOOL
ROWS = (FLOAT, ["b", 4])
CONSTANTS = {"w": random(4, 4) * np.float32(0.3), "zero": np.array([0]), "one": np.array(1), "true": np.array(True)}


def loop(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[str],
    outputs: Sequence[str],
    results: Sequence[str] = ("new",),
    condition: str = "runs",
    shape: Sequence[int | str | None] = ("b", 4),
) -> onnx.NodeProto:
    """A loop over one loop-carried value: ``old`` is its value before an iteration, and ``results`` begins with the one after it."""
    body = helper.make_graph(
        [*nodes, node("Identity", [condition], ["continues"])],
        "body",
        [info("at", INT64, []), info("runs", BOOL, []), info("old", FLOAT, shape)],
        [info("continues", BOOL, []), *(info(name, FLOAT, None) for name in results)],
    )
    return node("Loop", inputs, outputs, body=body)


STEP = [node("MatMul", ["old", "w"], ["product"]), node("Tanh", ["product"], ["new"])]


def branch(nodes: Sequence[onnx.NodeProto]) -> onnx.GraphProto:
    return helper.make_graph(nodes, "branch", [], [info(nodes[-1].output[0], FLOAT, None)])


CASES = {
    "rows of each iteration": (
        [loop([*STEP, node("Identity", ["new"], ["row"])], ["n", "", "x"], ["y", "rows"], ["new", "row"])], ["y", "rows"],
    ),
    "a value that grows": (
        [
            loop(
                [node("Slice", ["x", "zero", "last", "zero"], ["head"]), node("Concat", ["old", "head"], ["new"], axis=0)],
                ["n", "", "x"], ["grown"], shape=(None, 4),
            ),
            node("Relu", ["grown"], ["y"]),
        ],
        ["y"],
    ),
    "a branch in a loop": (
        [
            loop(
                [
                    node("Mod", ["at", "two"], ["rest"]), node("Cast", ["rest"], ["odd"], to=BOOL),
                    node(
                        "If", ["odd"], ["new"],
                        then_branch=branch([node("MatMul", ["old", "w"], ["then"])]), else_branch=branch([node("Neg", ["old"], ["else"])]),
                    ),
                ],
                ["n", "", "x"], ["y"],
            )
        ],
        ["y"],
    ),
    "a loop in a branch": (
        [
            node("Greater", ["n", "two"], ["many"]),
            node(
                "If", ["many"], ["y"],
                then_branch=branch([loop(STEP, ["n", "", "x"], ["then"])]), else_branch=branch([node("Neg", ["x"], ["else"])]),
            ),
        ],
        ["y"],
    ),
}  # fmt: skip


def network(nodes: Sequence[onnx.NodeProto], outputs: Sequence[str]) -> onnx.ModelProto:
    constants = {**CONSTANTS, "two": np.array(2), "last": np.array([1])}
    proto = model(nodes, {"n": (INT64, []), "x": ROWS}, outputs, constants)
    for value in proto.graph.output:
        if not value.type.tensor_type.HasField("shape"):
            value.type.tensor_type.elem_type = FLOAT
    return proto


def agree(results: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    for result, value in zip(results, expected, strict=True):
        assert result.shape == value.shape or 0 in value.shape  # without iterations, ONNX Runtime's rows have no length
        np.testing.assert_allclose(result, value.reshape(result.shape), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_a_loop_agrees_with_onnx_runtime_for_any_number_of_iterations(tmp_path, name):
    proto = network(*CASES[name])
    imported = read(save(tmp_path / "m.onnx", proto))
    for count in (0, 1, 2, 7):
        inputs = [np.array(count), random(3, 4)]
        agree(run_compiled(imported, inputs), runtime(proto, inputs))


ENDS = [*STEP, node("ReduceMax", ["new"], ["largest"], keepdims=0), node("Greater", ["largest", "least"], ["more"])]


@pytest.mark.parametrize("limit", ["n", ""], ids=["with a limit", "without a limit"])
def test_a_condition_ends_a_loop(tmp_path, limit):
    nodes = [loop(ENDS, [limit, "true", "x"], ["y", "rows"], ["new", "product"], condition="more")]
    inputs = {**({"n": (INT64, [])} if limit else {}), "x": ROWS, "least": (FLOAT, [])}
    proto = model(nodes, inputs, ["y", "rows"], CONSTANTS)
    imported = read(save(tmp_path / "m.onnx", proto))
    for least in (0.2, 0.001, 9):
        samples = [*([np.array(5)] if limit else []), random(3, 4), np.array(least, np.float32)]
        agree(run_compiled(imported, samples), runtime(proto, samples))


def appending_loop(start: onnx.NodeProto) -> onnx.NodeProto:
    """A loop that appends to a sequence, as PyTorch's exporter writes lists of scripted modules."""
    body = helper.make_graph(
        [*STEP, node("SequenceInsert", ["list", "new"], ["longer"]), node("Identity", ["runs"], ["continues"])],
        "body",
        [
            info("at", INT64, []), info("runs", BOOL, []), info("old", FLOAT, ["b", 4]),
            helper.make_tensor_sequence_value_info("list", FLOAT, None),
        ],
        [
            info("continues", BOOL, []), info("new", FLOAT, ["b", 4]),
            helper.make_tensor_sequence_value_info("longer", FLOAT, None),
        ],
    )  # fmt: skip
    return node("Loop", ["n", "", "x", start.output[0]], ["y", "elements"], body=body)


def test_a_sequence_that_grows_by_an_element_in_each_iteration_becomes_rows(tmp_path):
    start = node("SequenceEmpty", [], ["empty"], dtype=FLOAT)
    nodes = [
        start,
        appending_loop(start),
        node("ConcatFromSequence", ["elements"], ["stacked"], axis=1, new_axis=1),
        node("ConcatFromSequence", ["elements"], ["joined"], axis=-1),
        node("SequenceAt", ["elements", "one"], ["second"]),
        node("SequenceLength", ["elements"], ["length"]),
    ]
    proto = network(nodes, ["y", "stacked", "joined", "second", "length"])
    proto.graph.output[-1].type.tensor_type.elem_type = INT64
    imported = read(save(tmp_path / "m.onnx", proto))
    for count in (2, 5):
        inputs = [np.array(count), random(3, 4)]
        agree(run_compiled(imported, inputs), runtime(proto, inputs))


def test_a_sequence_that_has_elements_before_a_loop_is_refused(tmp_path):
    start = node("SequenceConstruct", ["x"], ["first"])
    nodes = [start, appending_loop(start), node("ConcatFromSequence", ["elements"], ["joined"], axis=0)]
    error = refusal(save(tmp_path / "m.onnx", network(nodes, ["joined"])))
    assert "only appending to an empty sequence can be imported" in error.problem


def scan() -> onnx.ModelProto:
    body = helper.make_graph(
        [node("Add", ["old", "first"], ["new"]), node("Mul", ["new", "second"], ["row"])],
        "body",
        [info(name, FLOAT, ["b", 4]) for name in ("old", "first", "second")],
        [info(name, FLOAT, ["b", 4]) for name in ("new", "row")],
    )
    attributes = {"scan_input_axes": [1, 1], "scan_input_directions": [0, 1], "scan_output_axes": [1]}
    layer = node(
        "Scan",
        ["start", "x", "x"],
        ["y", "rows"],
        body=body,
        num_scan_inputs=2,
        scan_output_directions=[1],
        **attributes,
    )
    return model([layer], {"x": (FLOAT, ["b", "t", 4]), "start": ROWS}, ["y", "rows"], CONSTANTS)


def test_a_scan_over_a_dynamic_length_agrees_with_onnx_runtime_when_it_is_lowered(tmp_path):
    proto = scan()
    module, weights = transformed(read(save(tmp_path / "m.onnx", proto)))
    run = runner(module, weights, 2)
    for length in (1, 5):
        inputs = [random(3, length, 4), random(3, 4, seed=1)]
        agree(run(inputs), runtime(proto, inputs))


def test_a_gpu_cannot_run_such_a_loop(tmp_path):
    target = tvm.target.Target({"kind": "cuda", "arch": "sm_90"}, host={"kind": "llvm"})
    module = transformed(read(save(tmp_path / "m.onnx", scan())))[0]
    with pytest.raises(InputError, match="loops whose number of iterations is known only at run time run on CPUs only"):
        lower(module, target, [], PassOptions(), 2)


def test_rows_whose_shape_depends_on_the_data_are_refused(tmp_path):
    nodes = [*STEP, node("NonZero", ["new"], ["indices"]), node("Cast", ["indices"], ["row"], to=FLOAT)]
    proto = network([loop(nodes, ["n", "", "x"], ["y", "rows"], ["new", "row"])], ["y", "rows"])
    assert "depends on the data" in refusal(save(tmp_path / "m.onnx", proto)).problem
