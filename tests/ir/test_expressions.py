"""Properties of expressions."""

import numpy as np
import pytest
import tvm

from tvmake.ir.expressions import (
    bindings,
    constant,
    dtype_name,
    extents,
    fixed_shape,
    is_call,
    operator_name,
    same_extents,
    spreads_over,
    variables,
    with_values,
)

from tvm import relax, tirx  # isort: skip

DATA = relax.Var("data", relax.TensorType([2, 3], "float32"))
OPEN = relax.Var("open", relax.TensorType([tirx.Var("n", "int64"), 3], "float16"))
NUMBER = relax.const(np.float32(4))


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (relax.op.nn.relu(DATA), "nn.relu"),
        (relax.op.add(DATA, NUMBER), "add"),
        (tirx.exp(tirx.Var("x", "float32")), "tirx.exp"),
        (relax.Call(relax.ExternFunc("elsewhere"), [DATA]), ""),
        (relax.Call(tvm.ir.GlobalVar("main"), [DATA]), ""),
        (DATA, ""),
        (relax.Tuple([DATA]), ""),
        (None, ""),
    ],
)
def test_a_call_of_an_operator_has_its_name_and_nothing_else_has_one(value, name):
    assert operator_name(value) == name
    assert is_call(value, "other", name)
    assert not is_call(value, "other")


def test_bindings_come_in_order_through_all_blocks():
    builder = relax.BlockBuilder()
    with builder.function("main", [DATA]):
        first = builder.emit(relax.op.nn.relu(DATA))
        with builder.dataflow():
            second = builder.emit_output(builder.emit(relax.op.exp(first)))
        builder.emit_func_output(second)
    found = [operator_name(binding.value) for binding in bindings(builder.get()["main"])]
    assert [name for name in found if name] == ["nn.relu", "exp"]


def test_a_function_of_a_single_expression_has_no_bindings():
    assert not list(bindings(relax.Function([DATA], DATA, DATA.ty)))


def test_variables_are_those_that_an_expression_reads():
    pair = relax.Tuple([DATA, relax.Tuple([OPEN, NUMBER])])
    assert variables(pair) == [DATA, OPEN]
    assert variables(relax.op.add(DATA, NUMBER)) == [DATA]
    assert variables(relax.TupleGetItem(relax.Var("both", relax.TupleType([DATA.ty, DATA.ty])), 0))[0].name == "both"
    assert variables(NUMBER) == []


def test_only_a_constant_has_an_array():
    assert constant(NUMBER) == np.float32(4)
    assert constant(DATA) is None
    assert constant(relax.op.negative(NUMBER)) is None


def test_a_shape_is_fixed_if_all_extents_are_numbers():
    assert fixed_shape(DATA) == [2, 3]
    assert fixed_shape(NUMBER) == []
    assert fixed_shape(OPEN) is None
    assert fixed_shape(relax.Var("any", relax.TensorType(dtype="float32", ndim=2))) is None


def test_an_element_type_is_text_wherever_it_is_read():
    assert dtype_name(DATA.ty) == "float32"
    assert dtype_name(tvm.runtime.tensor(np.zeros(2, "int8"))) == "int8"
    assert dtype_name(tirx.decl_buffer([4], "float16")) == "float16"


def test_extents_are_compared_symbolic_ones_included():
    rows = tirx.Var("n", "int64")
    first, second = (relax.Var("x", relax.TensorType([rows, 3], "float32")) for _ in range(2))
    assert same_extents(extents(first), extents(second))
    assert not same_extents(extents(first), extents(OPEN)), "another variable"
    assert not same_extents(extents(first), extents(first)[:1])
    assert extents(relax.Var("any", relax.TensorType(dtype="float32", ndim=2))) == []


def test_variables_are_replaced_wherever_an_expression_reads_them():
    before, after, other = (relax.Var(name, relax.TensorType([2], "float32")) for name in ("before", "after", "other"))
    expression = relax.Tuple(
        [relax.op.add(before, other), relax.TupleGetItem(relax.Tuple([before]), 0), relax.const(1.0)]
    )
    assert variables(with_values(expression, {before: after})) == [after, other, after]
    assert with_values(expression, {}).fields[2].same_as(expression.fields[2])


@pytest.mark.parametrize(
    ("shape", "extents", "spreads"),
    [
        ((3,), [tirx.Var("n", "int64"), 3], True),
        ((1, 3), [tirx.Var("n", "int64"), 3], True),
        ((), [tirx.Var("n", "int64")], True),
        ((1,), [tirx.Var("n", "int64")], True),
        ((2,), [tirx.Var("n", "int64")], False),
        ((2,), [4, 3], False),
        ((3,), [4, 1], False),
        ((1, 4, 3), [4, 3], False),
    ],
)
def test_an_array_broadcasts_if_it_leaves_the_tensors_shape_unchanged(shape, extents, spreads):
    assert spreads_over(shape, relax.ShapeExpr(extents).values) == spreads
