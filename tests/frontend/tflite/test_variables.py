"""Variables of a TFLite file become states that follow LiteRT's over a long sequence."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.frontend.compiled import run_sequence
from tests.frontend.tflite.models import KIND, OP, TYPES, Builder, schema
from tests.frontend.tflite.test_lstm import lstm, variable
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.tflite.importer import inspect, read
from tvmake.validate.reference.run import reference_outputs
from tvmake.validate.reference.tflite_model import open_model

STEPS = 1000
BATCH, VALUES, UNITS, MEMORY = 2, 3, 4, 6
TYPES["resource"] = schema.TensorType.RESOURCE


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-0.9, 0.9, shape).astype("float32")


def filters(rank: int = 1) -> bytes:
    builder = Builder()
    x = builder.tensor("x", [BATCH, VALUES])
    operands = [
        x,
        builder.tensor("features", [UNITS * rank, VALUES], data=draw(UNITS * rank, VALUES)),
        builder.tensor("times", [UNITS * rank, MEMORY], data=draw(UNITS * rank, MEMORY, seed=1)),
        builder.tensor("bias", [UNITS], data=draw(UNITS)),
        variable(builder, "state", [BATCH, UNITS * rank * MEMORY]),
    ]
    options = schema.SVDFOptionsT()
    options.rank, options.fusedActivationFunction = rank, schema.ActivationFunctionType.RELU
    output = builder.call(OP.SVDF, operands, builder.tensor("y", [BATCH, UNITS]), options, KIND.SVDFOptions)
    return builder.finish([x], [output])


def rnn(steps: int = 0) -> bytes:
    """A simple recurrent layer: one step, or a sequence."""
    builder = Builder()
    x = builder.tensor("x", [BATCH, *([steps] if steps else []), VALUES])
    operands = [
        x,
        builder.tensor("w", [UNITS, VALUES], data=draw(UNITS, VALUES)),
        builder.tensor("r", [UNITS, UNITS], data=draw(UNITS, UNITS, seed=1)),
        builder.tensor("b", [UNITS], data=draw(UNITS)),
        variable(builder, "h", [BATCH, UNITS]),
    ]
    options = schema.SequenceRNNOptionsT() if steps else schema.RNNOptionsT()
    options.fusedActivationFunction = schema.ActivationFunctionType.TANH
    output = builder.tensor("y", [BATCH, *([steps] if steps else []), UNITS])
    operator, kind = (OP.UNIDIRECTIONAL_SEQUENCE_RNN, KIND.SequenceRNNOptions) if steps else (OP.RNN, KIND.RNNOptions)
    builder.call(operator, operands, output, options, kind)
    return builder.finish([x], [output])


def cell() -> bytes:
    """One step of an LSTM."""
    builder = Builder()
    x = builder.tensor("x", [BATCH, VALUES])
    operands = [x]
    operands += [builder.tensor(f"w{gate}", [UNITS, VALUES], data=draw(UNITS, VALUES, seed=gate)) for gate in range(4)]
    operands += [builder.tensor(f"r{gate}", [UNITS, UNITS], data=draw(UNITS, UNITS, seed=gate)) for gate in range(4)]
    operands += [-1] * 3
    operands += [builder.tensor(f"b{gate}", [UNITS], data=draw(UNITS, seed=gate)) for gate in range(4)]
    operands += [-1, -1, variable(builder, "h", [BATCH, UNITS]), variable(builder, "c", [BATCH, UNITS])]
    options = schema.LSTMOptionsT()
    options.fusedActivationFunction = schema.ActivationFunctionType.TANH
    output = builder.call(OP.LSTM, operands, builder.tensor("y", [BATCH, UNITS]), options, KIND.LSTMOptions)
    return builder.finish([x], [output])


NETWORKS: dict[str, Callable[[], bytes]] = {
    "SVDF": filters,
    "SVDF of rank 2": lambda: filters(2),
    "RNN": rnn,
    "RNN over a sequence of one step": lambda: rnn(1),
    "LSTM": cell,
    "LSTM over a sequence of one step": lambda: lstm(steps=1, peepholes=True, projection=3),
}


def run_both(
    content: bytes, path: Path, samples: list[np.ndarray], steps: int = 0
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The outputs of the import and of LiteRT."""
    path.write_bytes(content)
    options = ImportOptions(source=str(path))
    imported = read(path, options)
    (given,), (output,) = imported.signature.inputs, imported.signature.outputs
    runtime = open_model(str(path), options, imported.signature.of_source)
    expected = list(reference_outputs(runtime, imported.signature, ({given.name: value} for value in samples), steps))
    sequences = [
        samples[begin : begin + (steps or len(samples))] for begin in range(0, len(samples), steps or len(samples))
    ]
    got = [result for sequence in sequences for (result,) in run_sequence(imported, ([value] for value in sequence))]
    return [(result, reference[output.name]) for result, reference in zip(got, expected, strict=True)]


@pytest.mark.parametrize("name", NETWORKS)
def test_states_follow_litert(name: str, tmp_path: Path):
    path = tmp_path / "m.tflite"
    path.write_bytes(NETWORKS[name]())
    (given,) = inspect(path).inputs
    samples = list(draw(STEPS, *given.shape))
    results = run_both(path.read_bytes(), path, samples, 600)
    errors = [np.abs(result - wanted).max() / np.abs(wanted).max() for result, wanted in results]
    assert max(errors) < 1e-5
    assert max(errors[500:600]) < 5 * max(1e-6, *errors[:100])


def test_a_sequence_of_several_steps_begins_with_zeros_in_each_call(tmp_path: Path):
    path = tmp_path / "m.tflite"
    x = draw(BATCH, 5, VALUES)
    (first, _), (second, wanted) = run_both(rnn(5), path, [x, x])
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(second, wanted, rtol=1e-5, atol=1e-6)
    assert not read(path, ImportOptions(source=str(path))).signature.states


def delays(dtype: str = "float32", scale: float | None = None, initial: float = 0.25) -> bytes:
    """The sum of the last inputs, of which a resource keeps those before, beginning with a value from CALL_ONCE."""
    builder, init = Builder(), Builder()
    init.buffers, init.codes = builder.buffers, builder.codes
    shape = [1, MEMORY, VALUES]

    def handle(part: Builder, name: str) -> int:
        options = schema.VarHandleOptionsT()
        options.container, options.sharedName = "", "stream"
        return part.call(OP.VAR_HANDLE, [], part.tensor(name, [], "resource"), options, KIND.VarHandleOptions)

    def assign(part: Builder, resource: int, value: int) -> None:
        part.call(
            OP.ASSIGN_VARIABLE, [resource, value], [], schema.AssignVariableOptionsT(), KIND.AssignVariableOptions
        )

    start = np.full(shape, initial) if scale is None else np.full(shape, initial / scale)
    assign(init, handle(init, "handle0"), init.tensor("start", shape, dtype, start, scale))
    once = schema.CallOnceOptionsT()
    once.initSubgraphIndex = 1
    builder.call(OP.CALL_ONCE, [], [], once, KIND.CallOnceOptions)
    resource = handle(builder, "handle1")
    x = builder.tensor("x", [1, 1, VALUES], dtype, None, scale)
    past = builder.call(
        OP.READ_VARIABLE,
        [resource],
        builder.tensor("past", shape, dtype, None, scale),
        schema.ReadVariableOptionsT(),
        KIND.ReadVariableOptions,
    )
    joined = schema.ConcatenationOptionsT()
    joined.axis = 1
    longer = builder.tensor("longer", [1, MEMORY + 1, VALUES], dtype, None, scale)
    builder.call(OP.CONCATENATION, [past, x], longer, joined, KIND.ConcatenationOptions)
    ends = [builder.tensor(f"ends{n}", [3], "int32", value) for n, value in enumerate(([0, 1, 0], [1, -1, -1]))]
    kept = builder.call(
        OP.SLICE,
        [longer, *ends],
        builder.tensor("kept", shape, dtype, None, scale),
        schema.SliceOptionsT(),
        KIND.SliceOptions,
    )
    assign(builder, resource, kept)
    reducer = schema.ReducerOptionsT()
    axes = builder.tensor("axes", [1], "int32", [1])
    y = builder.tensor("y", [1, VALUES], dtype, None, scale)
    builder.call(OP.MEAN, [longer, axes], y, reducer, KIND.ReducerOptions)
    return builder.finish([x], [y], [init.part([], [])])


def test_a_resource_begins_with_its_first_value_and_follows_litert(tmp_path: Path):
    results = run_both(delays(), tmp_path / "m.tflite", list(draw(STEPS, 1, 1, VALUES)), 600)
    errors = [np.abs(result - wanted).max() for result, wanted in results]
    assert max(errors) < 1e-6


def test_a_resource_of_integers_differs_from_litert_by_one_step_at_most(tmp_path: Path):
    samples = list(np.random.default_rng(0).integers(-128, 128, (STEPS, 1, 1, VALUES)).astype("int8"))
    results = run_both(delays("int8", 1 / 64), tmp_path / "m.tflite", samples, 600)
    assert max(np.abs(result.astype(int) - wanted).max() for result, wanted in results) <= 1


def test_a_variable_of_a_branch_is_refused(tmp_path: Path):
    builder, branch = Builder(), Builder()
    variable(branch, "state", [1, 8])
    x = builder.tensor("x", [BATCH, VALUES])
    operands = [
        x,
        *(builder.tensor(name, [UNITS, size], data=draw(UNITS, size)) for name, size in (("f", VALUES), ("t", MEMORY))),
    ]
    operands += [-1, variable(builder, "s", [BATCH, UNITS * MEMORY])]
    options = schema.SVDFOptionsT()
    options.rank = 1
    y = builder.call(OP.SVDF, operands, builder.tensor("y", [BATCH, UNITS]), options, KIND.SVDFOptions)
    path = tmp_path / "m.tflite"
    path.write_bytes(builder.finish([x], [y], [branch.part([], [])]))
    with pytest.raises(InputError, match="has a variable in a branch or a loop"):
        inspect(path)
