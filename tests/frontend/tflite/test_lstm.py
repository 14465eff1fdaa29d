"""LSTMs over sequences agree with LiteRT from zero states."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from tests.frontend.compiled import run_compiled
from tests.frontend.tflite.models import KIND, OP, Builder, schema
from tests.frontend.tflite.test_dequantized_operators import steps_between
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.tflite.importer import read

BATCH, STEPS, VALUES, UNITS = 2, 5, 3, 4


def variable(builder: Builder, name: str, shape: list[int]) -> int:
    index = builder.tensor(name, shape)
    builder.graph.tensors[index].isVariable = True
    return index


def lstm(
    coupled: bool = False,
    peepholes: bool = False,
    projection: int = 0,
    norms: bool = False,
    time_major: bool = False,
    clip: float = 0,
    steps: int = STEPS,
) -> bytes:
    builder, draw = Builder(), np.random.default_rng(7)

    def weights(name: str, *shape: int) -> int:
        return builder.tensor(name, shape, data=draw.uniform(-0.9, 0.9, shape).astype("float32"))

    shape = [steps, BATCH, VALUES] if time_major else [BATCH, steps, VALUES]
    width = projection or UNITS
    gates = "ifco"
    operands = [builder.tensor("x", shape)]
    operands += [-1 if coupled and gate == "i" else weights(f"w{gate}", UNITS, VALUES) for gate in gates]
    operands += [-1 if coupled and gate == "i" else weights(f"r{gate}", UNITS, width) for gate in gates]
    operands += [weights(f"p{gate}", UNITS) if peepholes and not (coupled and gate == "i") else -1 for gate in "ifo"]
    operands += [-1 if coupled and gate == "i" else weights(f"b{gate}", UNITS) for gate in gates]
    operands += [weights("q", width, UNITS), weights("qb", width)] if projection else [-1, -1]
    operands += [variable(builder, "h", [BATCH, width]), variable(builder, "c", [BATCH, UNITS])]
    operands += [weights(f"n{gate}", UNITS) if norms and not (coupled and gate == "i") else -1 for gate in gates]
    options = schema.UnidirectionalSequenceLSTMOptionsT()
    options.fusedActivationFunction = schema.ActivationFunctionType.TANH
    options.timeMajor, options.cellClip, options.projClip = time_major, clip, clip
    output = builder.tensor("y", [*shape[:2], width])
    builder.call(OP.UNIDIRECTIONAL_SEQUENCE_LSTM, operands, output, options, KIND.UnidirectionalSequenceLSTMOptions)
    return builder.finish([operands[0]], [output])


CASES: dict[str, dict[str, Any]] = {
    "as Keras has it": {},
    "one gate for input and forgetting": {"coupled": True},
    "peepholes": {"peepholes": True},
    "a projection": {"projection": 2},
    "norms": {"norms": True},
    "steps first": {"time_major": True},
    "cells that are clipped": {"clip": 0.2, "projection": 3},
    "one step": {"steps": 1},
    "everything": {"coupled": True, "peepholes": True, "projection": 3, "norms": True, "time_major": True},
}


@pytest.mark.parametrize("case", CASES)
def test_a_sequence_agrees_with_litert(case: str, tmp_path: Path):
    content = lstm(**CASES[case])
    interpreter = Interpreter(model_content=content)
    interpreter.allocate_tensors()
    (given,), (made,) = interpreter.get_input_details(), interpreter.get_output_details()
    x = np.random.default_rng(1).standard_normal(given["shape"]).astype("float32")
    interpreter.set_tensor(given["index"], x)
    interpreter.invoke()
    path = tmp_path / "m.tflite"
    path.write_bytes(content)
    (result,) = run_compiled(read(path, ImportOptions(source=str(path))), [x])
    np.testing.assert_allclose(result, interpreter.get_tensor(made["index"]), rtol=1e-4, atol=1e-5)


def integers(projection: int = 0, norms: bool = False) -> bytes:
    """An integer layer of LiteRT: states and the inputs of projection and norms are rounded at each step."""
    builder, draw, width = Builder(), np.random.default_rng(7), projection or UNITS
    weight, given, state, short = 0.5 / 127, (0.02, 3), (0.008, -1), 2**-14

    def values(name: str, *shape: int, dtype: str = "int8", scale: float = weight) -> int:
        return builder.tensor(name, shape, dtype, np.round(draw.uniform(-0.5, 0.5, shape) / scale), scale)

    def biases(name: str, count: int, scale: float) -> int:
        return values(name, count, dtype="int32", scale=scale)

    operands = [builder.tensor("x", [BATCH, STEPS, VALUES], "int8", None, *given)]
    operands += [values(f"w{gate}", UNITS, VALUES) for gate in "ifco"]
    operands += [values(f"r{gate}", UNITS, width) for gate in "ifco"]
    operands += [-1] * 3
    operands += [biases(f"b{gate}", UNITS, short / 1024 if norms else given[0] * weight) for gate in "ifco"]
    operands += [values("q", width, UNITS), biases("qb", width, weight * 0.004)] if projection else [-1, -1]
    operands += [
        builder.tensor("h", [BATCH, width], "int8", None, *state),
        builder.tensor("c", [BATCH, UNITS], "int16", None, 2**-11),
    ]
    for index in operands[-2:]:
        builder.graph.tensors[index].isVariable = True
    operands += [values(f"n{gate}", UNITS, dtype="int16", scale=short) if norms else -1 for gate in "ifco"]
    output = builder.tensor("y", [BATCH, STEPS, width], "int8", None, *state)
    options = schema.UnidirectionalSequenceLSTMOptionsT()
    options.fusedActivationFunction = schema.ActivationFunctionType.TANH
    builder.call(OP.UNIDIRECTIONAL_SEQUENCE_LSTM, operands, output, options, KIND.UnidirectionalSequenceLSTMOptions)
    builder.codes[-1].version = 3
    builder.graph.operators[-1].intermediates = [
        *(builder.tensor(f"i{gate}", [], "int16", None, 2e-5) for gate in "ifco"),
        builder.tensor("u", [], "int8", None, *((0.004, 0) if projection else state)),
    ]
    return builder.finish([operands[0]], [output])


@pytest.mark.parametrize("case", [{}, {"projection": 3}, {"norms": True}], ids=["plain", "a projection", "norms"])
def test_an_integer_layer_differs_from_litert_by_one_step_at_most(case: dict[str, Any], tmp_path: Path):
    x = np.random.default_rng(1).integers(-128, 128, (BATCH, STEPS, VALUES)).astype("int8")
    assert steps_between(integers(**case), x, tmp_path).max() <= 1
