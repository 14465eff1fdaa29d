"""LSTMs that ONNX Runtime's ``quantize_dynamic`` quantised agree with it at every length, and their weights stay integers."""

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper

from tests.frontend.onnx.models import FLOAT, model, random, read, refusal, save
from tests.unoptimised import UNOPTIMISED, unoptimised_machine
from tvmake.codegen.lowering import lower
from tvmake.codegen.options import PassOptions
from tvmake.errors import InputError
from tvmake.frontend.imported import ImportedModel

INPUTS, HIDDEN = 21, 18
"""Not multiples of the vectors of a kernel."""

FORMS = {
    "one direction": ("forward", np.int8, False, (), {}),
    "backwards, unsigned weights, of several lengths": ("reverse", np.uint8, False, ("lengths", "h"), {}),
    "both directions, a scale for each channel, with peepholes": ("bidirectional", np.int8, True, ("p", "lengths"), {}),
    "clipped gates, a scale for each channel of unsigned weights": (
        "forward",
        np.uint8,
        True,
        ("h", "c"),
        {"clip": 0.5},
    ),
    "other activations backwards": (
        "bidirectional",
        np.int8,
        False,
        (),
        {"activations": ["Sigmoid", "Tanh", "Tanh", "HardSigmoid", "Softsign", "Relu"]},
    ),
}


def layer(
    direction: str,
    kind: type,
    is_per_channel: bool,
    operands: tuple[str, ...] = (),
    values: dict | None = None,
    sizes: tuple[int | str, int | str] = ("T", "N"),
    weights: str = "w",
) -> onnx.ModelProto:
    """A layer over sequences [T, N, ...].

    Its weights have 7 bits: on processors without VNNI, ONNX Runtime's sums of two products of larger ones overflow.
    """
    draw, directions = np.random.default_rng(0), 2 if direction == "bidirectional" else 1
    middle = 0 if kind is np.int8 else 128
    parameters = (directions, 4 * HIDDEN) if is_per_channel else (directions,)
    constants = {"b": random(directions, 8 * HIDDEN) / 3, "p": random(directions, 3 * HIDDEN) / 3}
    for name, extent in (("w", INPUTS), ("r", HIDDEN)):
        constants[name] = (draw.integers(-64, 64, (directions, extent, 4 * HIDDEN)) + middle).astype(kind)
        constants[f"{name}_scale"] = draw.uniform(0.005, 0.02, parameters).astype(np.float32)
        constants[f"{name}_zero"] = np.full(parameters, 0 if is_per_channel and not middle else middle + 9, kind)
    shapes = {"h": (directions, sizes[1], HIDDEN), "c": (directions, sizes[1], HIDDEN), "lengths": (sizes[1],)}
    given = {name: name if name in operands else "" for name in (*shapes, "p")}
    names = ["x", weights, "r", "b", given["lengths"], given["h"], given["c"], given["p"]]
    names += ["w_scale", "w_zero", "r_scale", "r_zero"]
    values = {"hidden_size": HIDDEN, "direction": direction, **(values or {})}
    node = helper.make_node("DynamicQuantizeLSTM", names, ["y", "y_h", "y_c"], domain="com.microsoft", **values)
    inputs = {"x": (FLOAT, (*sizes, INPUTS))}
    inputs |= {
        name: (TensorProto.INT32 if name == "lengths" else FLOAT, shapes[name]) for name in shapes if name in operands
    }
    if weights not in constants:
        inputs[weights] = TensorProto.INT8, constants["w"].shape
    return model([node], inputs, ["y", "y_h", "y_c"], constants, domains=["com.microsoft"])


def draw_inputs(proto: onnx.ModelProto, length: int, batch: int) -> dict[str, np.ndarray]:
    extents = {"T": length, "N": batch}
    draw, inputs = np.random.default_rng(length), {}
    for value in proto.graph.input:
        dims = value.type.tensor_type.shape.dim
        shape = [extents[dim.dim_param] if dim.dim_param else dim.dim_value for dim in dims]
        if value.name == "lengths":
            inputs[value.name] = draw.integers(1, length + 1, shape).astype(np.int32)
        else:
            inputs[value.name] = random(*shape, seed=len(inputs))
    return inputs


def run_on_one_thread(proto: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Results of ONNX Runtime on one thread; with several, each thread rounds its rows of a state by their own range."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def run(
    machine: "tvm.relax.VirtualMachine", imported: ImportedModel, inputs: dict[str, np.ndarray]
) -> list[np.ndarray]:
    weights = [np.asarray(value.numpy() if hasattr(value, "numpy") else value) for value in imported.params.values()]
    return [value.numpy() for value in machine["main"](*map(tvm.runtime.tensor, [*inputs.values(), *weights]))]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_an_lstm_in_8_bits_agrees_with_onnx_runtime_at_every_length(tmp_path, form):
    """A batch of 5 is a tile of four sequences and a single one."""
    proto = layer(*form)
    imported = read(save(tmp_path / "m.onnx", proto))
    machine = unoptimised_machine(imported.module)
    for length, batch in ((1, 1), (2, 4), (7, 3), (30, 5)):
        inputs = draw_inputs(proto, length, batch)
        expected = run_on_one_thread(proto, inputs)
        for output, wanted in zip(run(machine, imported, inputs), expected, strict=True):
            np.testing.assert_allclose(output, wanted, rtol=1e-4, atol=1e-5)
    assert {str(value.dtype) for value in imported.params.values()} >= {"int8"}
    assert "slow" not in imported.notes


def test_over_no_step_the_state_is_the_initial_one(tmp_path):
    proto = layer("bidirectional", np.int8, False, ("h", "c"))
    imported = read(save(tmp_path / "m.onnx", proto))
    inputs = draw_inputs(proto, 0, 3)
    outputs, *states = run(unoptimised_machine(imported.module), imported, inputs)
    assert outputs.shape == (0, 2, 3, HIDDEN)
    for state, name in zip(states, "hc", strict=True):
        np.testing.assert_array_equal(state, inputs[name])


@pytest.mark.parametrize("batch", [1, 7])
def test_it_agrees_over_a_fixed_length_too(tmp_path, batch):
    proto = layer("bidirectional", np.uint8, False, sizes=(9, batch))
    imported = read(save(tmp_path / "m.onnx", proto))
    inputs = draw_inputs(proto, 9, batch)
    expected = run_on_one_thread(proto, inputs)
    for output, wanted in zip(run(unoptimised_machine(imported.module), imported, inputs), expected, strict=True):
        np.testing.assert_allclose(output, wanted, rtol=1e-4, atol=1e-5)


def test_weights_that_are_inputs_are_refused(tmp_path):
    error = refusal(save(tmp_path / "m.onnx", layer("forward", np.int8, False, weights="other")))
    assert "DynamicQuantizeLSTM" in str(error)


def test_gpus_refuse_it_with_the_remedy(tmp_path):
    imported = read(save(tmp_path / "m.onnx", layer("forward", np.int8, False, sizes=(9, 2))))
    target = tvm.target.Target({"kind": "cuda", "arch": "sm_90"}, host={"kind": "llvm"})
    with pytest.raises(InputError, match=r"8-bit weights run on CPUs only\n.*without 8-bit weights"):
        lower(imported.module, target, [], PassOptions(), 1)
    assert lower(imported.module, UNOPTIMISED, [], PassOptions(), 1).final
