"""Counting loops of TFLite, such as Keras' recurrent layers, are unrolled, other loops refused; branches are selected from."""

from pathlib import Path

import numpy as np
import pytest

from tests.frontend.compiled import run_compiled
from tests.frontend.tflite.models import KIND, OP, Builder, schema
from tests.frontend.tflite.test_operators import computed, drawn
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.tflite.importer import read

STEPS, WIDTH = 4, 3


def whole(builder: Builder, name: str, values: object) -> int:
    """An integer constant."""
    array = np.array(values, "int32")
    return builder.tensor(name, array.shape, "int32", array)


def states(builder: Builder, suffix: str = "") -> list[int]:
    """The loop-carried values: a count, the state, all states, and the rows that are read."""
    kinds = {
        "i": ([], "int32"),
        "h": ([1, WIDTH], "float32"),
        "all": ([STEPS, WIDTH], "float32"),
        "x": ([STEPS, WIDTH], "float32"),
    }
    return [builder.tensor(name + suffix, shape, dtype) for name, (shape, dtype) in kinds.items()]


def recurrent(follows_data: bool = False) -> bytes:
    """A layer in Keras' form: the state of every step replaces a row."""
    main = Builder()
    condition, body = (Builder(buffers=main.buffers, codes=main.codes) for _ in range(2))

    given = states(condition)
    test = condition.tensor("continues", [1] if follows_data else [], "bool")
    if follows_data:
        flat = condition.call(
            OP.SLICE,
            [given[1], whole(condition, "b", [0, 0]), whole(condition, "e", [1, 1])],
            condition.tensor("f", [1, 1]),
        )
        flat = condition.call(OP.RESHAPE, [flat, whole(condition, "s", [1])], condition.tensor("g", [1]))
        condition.call(OP.LESS, [flat, condition.tensor("bound", [1], data=[0.9])], test)
    else:
        condition.call(OP.LESS, [given[0], whole(condition, "n", STEPS)], test)

    count, state, result, rows = states(body)
    add = schema.AddOptionsT()
    joined = schema.ConcatenationOptionsT()
    joined.axis = 0
    after = body.call(OP.ADD, [count, whole(body, "one", 1)], body.tensor("i1", [], "int32"), add, KIND.AddOptions)
    row = body.call(OP.GATHER, [rows, count], body.tensor("row", [WIDTH]), schema.GatherOptionsT(), KIND.GatherOptions)
    total = body.call(OP.ADD, [state, row], body.tensor("sum", [1, WIDTH]), add, KIND.AddOptions)
    fresh = body.call(OP.TANH, [total], body.tensor("fresh", [1, WIDTH]))

    def place(number: int, rest: int, name: str) -> int:
        flat = body.call(OP.RESHAPE, [number, whole(body, f"{name}s", [1])], body.tensor(f"{name}f", [1], "int32"))
        both = [flat, whole(body, f"{name}r", [rest])]
        return body.call(OP.CONCATENATION, both, body.tensor(name, [2], "int32"), joined, KIND.ConcatenationOptions)

    sizes = [place(count, WIDTH, "before"), whole(body, "rest", [-1, -1])]
    starts = [whole(body, "zero", [0, 0]), place(after, 0, "behind")]
    earlier, later = (
        body.call(OP.SLICE, [result, start, size], body.tensor(f"part{start}", [1, WIDTH], open_axes=(0, 1)))
        for start, size in zip(starts, sizes, strict=True)
    )
    kept = body.tensor("kept", [STEPS, WIDTH])
    body.call(OP.CONCATENATION, [earlier, fresh, later], kept, joined, KIND.ConcatenationOptions)

    x = main.tensor("x", [STEPS, WIDTH])
    begin = [whole(main, "0", 0), *(main.tensor(f"0{n}", [n, WIDTH], data=np.zeros((n, WIDTH))) for n in (1, STEPS)), x]
    options = schema.WhileOptionsT()
    options.condSubgraphIndex, options.bodySubgraphIndex = 1, 2
    ends = states(main, " at the end")
    main.call(OP.WHILE, begin, ends, options, KIND.WhileOptions)
    others = [condition.part(given, [test]), body.part([count, state, result, rows], [after, fresh, kept, rows])]
    return main.finish([x], [ends[2]], others)


def test_a_counting_loop_agrees_with_litert(tmp_path: Path):
    path = tmp_path / "m.tflite"
    path.write_bytes(recurrent())
    value = drawn(STEPS, WIDTH)
    (got,) = run_compiled(read(path, ImportOptions(source=str(path))), [value])
    np.testing.assert_allclose(got, computed(path.read_bytes(), [value]), rtol=1e-5, atol=1e-6)


def test_a_data_dependent_loop_is_refused(tmp_path: Path):
    path = tmp_path / "m.tflite"
    path.write_bytes(recurrent(follows_data=True))
    with pytest.raises(InputError, match=r"a loop \(WHILE\) whose number of steps depends on data.*\n.*unroll=True"):
        read(path, ImportOptions(source=str(path)))


def choosing(weights: list[np.ndarray]) -> bytes:
    """Two layers; the sign of an input's sum chooses one."""
    main = Builder()
    x = main.tensor("x", [1, WIDTH])
    matrices = [main.tensor(f"w{index}", weight.shape, data=weight) for index, weight in enumerate(weights)]
    reduced = schema.ReducerOptionsT()
    total = main.call(OP.SUM, [x, whole(main, "axes", [0, 1])], main.tensor("total", []), reduced, KIND.ReducerOptions)
    is_positive = main.call(OP.GREATER, [total, main.tensor("zero", [], data=0.0)], main.tensor("c", [], "bool"))
    branches = []
    for own in range(2):
        branch = Builder(buffers=main.buffers, codes=main.codes)
        inputs = [branch.tensor("x", [1, WIDTH]), *(branch.tensor(f"w{i}", w.shape) for i, w in enumerate(weights))]
        options = schema.FullyConnectedOptionsT()
        result = branch.tensor("y", [1, len(weights[own])])
        branch.call(OP.FULLY_CONNECTED, [inputs[0], inputs[1 + own], -1], result, options, KIND.FullyConnectedOptions)
        branches.append(branch.part(inputs, [result]))
    options = schema.IfOptionsT()
    options.thenSubgraphIndex, options.elseSubgraphIndex = 1, 2
    y = main.tensor("y", [1, len(weights[0])])
    main.call(OP.IF, [is_positive, x, *matrices], y, options, KIND.IfOptions)
    return main.finish([x], [y], branches)


def test_a_branch_agrees_with_litert_and_its_weights_are_constants(tmp_path: Path):
    path = tmp_path / "m.tflite"
    path.write_bytes(choosing([drawn(5, WIDTH), drawn(5, WIDTH) + 1]))
    model = read(path, ImportOptions(source=str(path)))
    assert [variable.name_hint for variable in model.module.get_global_vars()] == ["main"]
    for value in (np.full((1, WIDTH), 0.5, "float32"), np.full((1, WIDTH), -0.5, "float32")):
        (got,) = run_compiled(model, [value])
        np.testing.assert_allclose(got, computed(path.read_bytes(), [value]), rtol=1e-5, atol=1e-6)
