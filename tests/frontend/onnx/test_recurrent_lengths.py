"""Recurrent layers over a dynamic length, and over dynamic batches, agree with ONNX Runtime at every size."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper

from tests.frontend.onnx.models import FLOAT, model, random, read, refusal, save
from tests.unoptimised import UNOPTIMISED
from tvmake.codegen.lowering import lower
from tvmake.codegen.options import PassOptions
from tvmake.errors import InputError

from tvm import relax  # isort: skip

INPUTS, HIDDEN = 5, 18
"""Not a multiple of the vectors of a kernel."""

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}

LAYERS = {
    "lstm": ("LSTM", {}, ()),
    "lstm backwards, with peepholes and lengths": ("LSTM", {"direction": "reverse"}, ("lengths", "state", "P")),
    "lstm in both directions": ("LSTM", {"direction": "bidirectional"}, ("B", "lengths", "state")),
    "lstm with coupled gates": ("LSTM", {"input_forget": 1, "clip": 0.5}, ("B",)),
    "gru": ("GRU", {}, ("B", "state")),
    "gru as PyTorch's": ("GRU", {"linear_before_reset": 1, "direction": "bidirectional"}, ("B", "lengths")),
    "gru with other activations": (
        "GRU",
        {"activations": ["HardSigmoid", "Softsign"], "activation_alpha": [0.3]},
        (),
    ),
    "rnn with an activation for each direction": (
        "RNN",
        {"direction": "bidirectional", "activations": ["LeakyRelu", "Elu"], "activation_alpha": [0.3]},
        ("B",),
    ),
}


def network() -> onnx.ModelProto:
    """All layers over the same sequences [T, N, ...]."""
    nodes, constants, outputs = [], {}, []
    inputs = {"x": (FLOAT, ["T", "N", INPUTS]), "lengths": (TensorProto.INT32, ["N"])}
    inputs |= {f"{name}{count}": (FLOAT, [count, "N", HIDDEN]) for name in ("h", "c") for count in (1, 2)}
    for number, (operator, attributes, operands) in enumerate(LAYERS.values()):
        directions, rows = 2 if attributes.get("direction") == "bidirectional" else 1, GATES[operator] * HIDDEN
        shapes = {"W": (rows, INPUTS), "R": (rows, HIDDEN), "B": (2 * rows,), "P": (3 * HIDDEN,)}
        for seed, name in enumerate(("W", "R", *filter(shapes.__contains__, operands))):
            constants[f"{name}{number}"] = random(directions, *shapes[name], seed=10 * number + seed) / 3
        names = {
            **{name: f"{name}{number}" for name in shapes if f"{name}{number}" in constants},
            "lengths": "lengths" if "lengths" in operands else "",
            "h": f"h{directions}" if "state" in operands else "",
            "c": f"c{directions}" if "state" in operands and operator == "LSTM" else "",
        }
        operand_names = ["x", *(names.get(name, "") for name in ("W", "R", "B", "lengths", "h", "c", "P"))]
        results = [f"y{number}", f"h_n{number}", *([f"c_n{number}"] if operator == "LSTM" else [])]
        count = 8 if operator == "LSTM" else 6
        nodes.append(helper.make_node(operator, operand_names[:count], results, hidden_size=HIDDEN, **attributes))
        outputs += results
    return model(nodes, inputs, outputs, constants)


@pytest.fixture(scope="module")
def proto() -> onnx.ModelProto:
    return network()


@pytest.fixture(scope="module")
def machine(proto: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory):
    imported = read(save(tmp_path_factory.mktemp("recurrent") / "m.onnx", proto))
    virtual_machine = relax.VirtualMachine(tvm.compile(imported.module, target=UNOPTIMISED), tvm.cpu())
    weights = [value.numpy() for value in imported.params.values()]
    return lambda *inputs: virtual_machine["main"](*map(tvm.runtime.tensor, [*inputs, *weights]))


@pytest.mark.parametrize(("length", "batch"), [(1, 1), (2, 4), (7, 3), (30, 5)])
def test_recurrent_layers_agree_with_onnx_runtime_at_every_length(proto, machine, length, batch):
    """A batch of 5 is a tile of four sequences and a single one."""
    draw = np.random.default_rng(length)
    lengths = draw.integers(1, length + 1, batch).astype(np.int32)
    lengths[0] = length
    states = [random(count, batch, HIDDEN, seed=count) for count in (1, 2)] * 2
    inputs = [random(length, batch, INPUTS), lengths, *states]
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [value.name for value in proto.graph.input]
    expected = session.run(None, dict(zip(names, inputs, strict=True)))
    for value, output, name in zip(expected, machine(*inputs), session.get_outputs(), strict=True):
        assert output.shape == value.shape
        np.testing.assert_allclose(output.numpy(), value, rtol=1e-4, atol=1e-5, err_msg=name.name)


def single_layer(**attributes) -> onnx.ModelProto:
    constants = {"W": random(1, 4 * HIDDEN, INPUTS), "R": random(1, 4 * HIDDEN, HIDDEN)}
    layer = helper.make_node("LSTM", ["x", "W", "R"], ["y"], hidden_size=HIDDEN, **attributes)
    return model([layer], {"x": (FLOAT, ["T", 2, INPUTS])}, ["y"], constants)


def test_a_gpu_needs_a_fixed_length(tmp_path: Path):
    path = save(tmp_path / "m.onnx", single_layer())
    target = tvm.target.Target({"kind": "cuda", "arch": "sm_90"}, host={"kind": "llvm"})
    with pytest.raises(InputError, match=r"run on CPUs only\n.*`inputs: {NAME: {shape: \[1, 80\]}}`"):
        lower(read(path).module, target, [], PassOptions(), 1)
    fixed = read(path, inputs={"x": {"shape": [5, 2, INPUTS]}})
    assert lower(fixed.module, target, [], PassOptions(), 1).final


def test_an_activation_that_no_kernel_has_is_refused(tmp_path: Path):
    error = refusal(save(tmp_path / "m.onnx", single_layer(activations=["Affine", "Tanh", "Tanh"])))
    assert "the activation Affine is not supported" in str(error)
