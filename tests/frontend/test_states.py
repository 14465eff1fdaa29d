"""Inputs whose next value is an output: which they are, and the network that takes them last."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.unoptimised import unoptimised_machine
from tvmake.errors import InputError
from tvmake.frontend.onnx.importer import read
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.state_pairs import without_states
from tvmake.frontend.states import declare_states

import tvm  # isort: skip

LAYERS = """
<ir_version: 8, opset_import: ["" : 17]>
network (float[1, a] past_0_key, float[1, b] past_1_key, float[1, 1] x, int64[1] n)
    => (float[1, c] present_0_key, float[1] sum, float[1, d] present_1_key, int64[1] next_n)
<int64[1] one = {1}>
{
  present_0_key = Concat<axis = 1>(past_0_key, x)
  present_1_key = Concat<axis = 1>(x, past_1_key)
  whole = Concat<axis = 1>(present_0_key, present_1_key)
  sum = ReduceSum<keepdims = 0>(whole, one)
  next_n = Add(n, one)
}
"""

PAIRS = {"past_%d_key": "present_%d_key", "n": "next_n"}


def imported(tmp_path: Path, text: str = LAYERS):
    file = tmp_path / "network.onnx"
    onnx.save(onnx.parser.parse_model(text), file)
    return read(file, ImportOptions(source=str(file)))


def test_states_come_after_the_inputs_and_their_next_values_after_the_outputs(tmp_path: Path):
    network = declare_states(imported(tmp_path), PAIRS, "network.onnx")
    signature = network.signature
    assert [spec.name for spec in signature.inputs] == ["x"]
    assert [spec.name for spec in signature.outputs] == ["sum"]
    assert [(state.name, state.next.name, state.places) for state in signature.states] == [
        ("past_0_key", "present_0_key", (0, 0)),
        ("past_1_key", "present_1_key", (1, 2)),
        ("n", "next_n", (3, 3)),
    ]
    machine = unoptimised_machine(network.module)
    values = np.array([[5.0]], "float32"), np.array([[1, 2]], "float32"), np.array([[3]], "float32"), np.array([7])
    results = machine["main"](*map(tvm.runtime.tensor, values), *map(tvm.runtime.tensor, network.params.values()))
    total, first, second, count = (result.numpy() for result in results)
    assert (total.tolist(), first.tolist(), second.tolist(), count.tolist()) == ([16], [[1, 2, 5]], [[5, 3]], [8])


def test_the_sources_own_signature_has_its_order(tmp_path: Path):
    before = imported(tmp_path)
    after = declare_states(before, PAIRS, "network.onnx").signature.of_source
    assert (after.inputs, after.outputs, after.states) == (before.signature.inputs, before.signature.outputs, ())


@pytest.mark.parametrize(
    ("state", "problem", "remedy"),
    [
        (
            {"past": "present_0_key"},
            "has no input 'past' for a state",
            "past_0_key, past_1_key, x, n; correct `state: {INPUT: OUTPUT}`",
        ),
        ({"n": "m"}, "has no output 'm' for the next value of state 'n'", "present_0_key, sum"),
        ({"past_%d_key": "present_%d_value"}, "has no output 'present_0_value'", "present_0_key"),
        ({"past_%d_key": "present_0_key"}, "have different numbers of %d", "write %d in both"),
        ({"n": "sum"}, "state 'n' takes int64[1], and its next value 'sum' is float32[1]", "type and shape"),
        ({"past_0_key": "sum"}, "takes float32[1, a], and its next value 'sum' is float32[1]", "type and shape"),
        ({"past_0_key": "present_0_key", "past_1_key": "present_0_key"}, "the next value of two states", "its own"),
        ({"past_%d_key": "present_%d_key", "past_0_key": "present_1_key"}, "has two next values", "once"),
        ({**PAIRS, "x": "sum"}, "every output is the next value of a state", "leave one output to the caller"),
    ],
)
def test_what_is_no_state_is_refused_with_the_names_there_are(
    tmp_path: Path, state: dict[str, str], problem: str, remedy: str
):
    with pytest.raises(InputError) as refused:
        declare_states(imported(tmp_path), state, "network.onnx")
    assert problem in refused.value.problem
    assert remedy in str(refused.value.remedy)


def test_a_check_knows_what_the_caller_has_without_an_import(tmp_path: Path):
    declared = imported(tmp_path).signature
    left = without_states(declared, PAIRS, "models.m.state")
    assert ([spec.name for spec in left.inputs], [spec.name for spec in left.outputs]) == (["x"], ["sum"])
    with pytest.raises(InputError, match="every output is the next value of a state"):
        without_states(declared, {**PAIRS, "x": "sum"}, "models.m.state")
    with pytest.raises(InputError, match="no input 'h' for a state"):
        without_states(declared, {"h": "sum"}, "models.m.state")
