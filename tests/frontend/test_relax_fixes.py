import numpy as np
import pytest
import tvm

from tests.unoptimised import unoptimised_machine
from tvmake.frontend.relax_fixes import correct_operators, drop_unused_params, lift_constants

from tvm import relax  # isort: skip


def build(body, *parameters):
    builder = relax.BlockBuilder()
    with builder.function("main", list(parameters)):
        with builder.dataflow():
            output = builder.emit_output(body(builder))
        builder.emit_func_output(output)
    return builder.get()


def run(module, *values):
    machine = unoptimised_machine(module)
    return machine["main"](*(tvm.runtime.tensor(value) for value in values)).numpy()


@pytest.fixture
def x():
    return relax.Var("x", relax.TensorType((4, 3), "float32"))


@pytest.fixture
def value():
    return np.arange(12, dtype="float32").reshape(4, 3)


def test_a_negative_index_counts_from_the_end(x, value):
    index = relax.const(np.array([-1, 0], "int64"))
    module = build(lambda b: b.emit(relax.op.take(x, index, axis=0, mode="fast")), x)
    np.testing.assert_array_equal(run(correct_operators(module), value), value[[-1, 0]])


def test_takes_with_another_mode_are_unchanged(x):
    module = build(lambda b: b.emit(relax.op.take(x, relax.const(np.array([9], "int64")), axis=0, mode="clip")), x)
    tvm.ir.assert_structural_equal(correct_operators(module), module)


def test_atanh_keeps_the_digits_near_zero():
    values = np.array([0, 1e-30, 1e-7, -3e-5, 0.01, 0.33, -0.34, 0.9, 1, -1, 1.5], "float32")
    x = relax.Var("x", relax.TensorType(values.shape, "float32"))
    found = run(correct_operators(build(lambda b: b.emit(relax.op.atanh(x)), x)), values)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found, np.arctanh(values.astype("float64")), rtol=1e-6)


def test_a_take_inside_an_if_is_made_safe_too(x, value):
    condition = relax.Var("c", relax.TensorType((), "bool"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, condition]):
        last = relax.op.take(x, relax.const(np.array([-1], "int64")), axis=0, mode="fast")
        first = relax.op.take(x, relax.const(np.array([0], "int64")), axis=0, mode="fast")
        result = builder.emit(relax.If(condition, relax.SeqExpr([], last), relax.SeqExpr([], first)))
        builder.emit_func_output(result)
    assert 'mode="fast"' not in correct_operators(builder.get()).script()


def test_large_constants_become_trailing_parameters_in_order_and_small_ones_stay(x, value):
    first, second = (np.full((4, 3), number, "float32") for number in (2, 3))
    module = build(lambda b: b.emit(relax.op.add(relax.op.multiply(x, relax.const(first)), relax.const(second))), x)
    lifted, params = lift_constants(module, min_bytes=48)
    assert list(params) == ["param_0", "param_1"]
    assert [var.name for var in lifted["main"].params] == ["x", "param_0", "param_1"]
    np.testing.assert_array_equal(params["param_0"].numpy(), first)
    np.testing.assert_array_equal(run(lifted, value, first, second), value * 2 + 3)
    assert lift_constants(module, min_bytes=49)[1] == {}


def test_a_lifted_parameter_does_not_take_a_name_that_is_in_use(value):
    x = relax.Var("param_0", relax.TensorType((4, 3), "float32"))
    module = build(lambda b: b.emit(relax.op.add(x, relax.const(value))), x)
    assert list(lift_constants(module, min_bytes=1)[1]) == ["param_1"]


def test_unused_parameters_are_dropped_and_inputs_are_kept(x, value):
    unused = relax.Var("unused_input", relax.TensorType((1,), "float32"))
    weights = {name: relax.Var(name, relax.TensorType((4, 3), "float32")) for name in ("idle", "w")}
    module = build(lambda b: b.emit(relax.op.add(x, weights["w"])), x, unused, weights["idle"], weights["w"])
    kept, params = drop_unused_params(module, {"idle": value, "w": value})
    assert list(params) == ["w"]
    assert [var.name for var in kept["main"].params] == ["x", "unused_input", "w"]
