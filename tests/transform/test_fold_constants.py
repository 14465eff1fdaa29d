"""Folding with NumPy equals TVM's FoldConstant, with far fewer kernels to compile."""

import numpy as np
import pytest
import tvm

from tests.unoptimised import unoptimised_machine
from tvmake.ir.expressions import operator_name
from tvmake.transform.fold_constants import OPERATORS, evaluate_constants, fold_constants

from tvm import relax  # isort: skip

RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(0.5, 2, (3, 4)).astype("float32")
Y = RANDOM.uniform(0.5, 2, (3, 4)).astype("float32")

CASES = {
    "add": lambda x, y: relax.op.add(x, y),
    "subtract": lambda x, y: relax.op.subtract(x, y),
    "multiply": lambda x, y: relax.op.multiply(x, y),
    "divide": lambda x, y: relax.op.divide(x, y),
    "sqrt": lambda x, _: relax.op.sqrt(x),
    "rsqrt": lambda x, _: relax.op.rsqrt(x),
    "negative": lambda x, _: relax.op.negative(x),
    "astype": lambda x, _: relax.op.astype(x, "float16"),
    "reshape": lambda x, _: relax.op.reshape(x, (2, 6)),
    "expand_dims": lambda x, _: relax.op.expand_dims(x, [0, 3]),
    "squeeze": lambda x, _: relax.op.squeeze(relax.op.reshape(x, (1, 3, 1, 4)), [0]),
    "permute_dims": lambda x, _: relax.op.permute_dims(x, [1, 0]),
}


def module_of(build) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    with builder.function("main", []):
        with builder.dataflow():
            value = builder.emit(build(relax.const(X), relax.const(Y)))
            output = builder.emit_output(value)
        builder.emit_func_output(output)
    return builder.get()


def result(module: tvm.IRModule) -> np.ndarray:
    vm = unoptimised_machine(module)
    return vm["main"]().numpy()


def operators_left(module: tvm.IRModule) -> set[str]:
    found: set[str] = set()

    def note(expression) -> None:
        if name := operator_name(expression):
            found.add(name)

    relax.analysis.post_order_visit(module["main"], note)
    return found


def test_every_operator_has_a_case():
    assert set(CASES) == set(OPERATORS)


@pytest.mark.parametrize("name", CASES)
def test_an_operator_on_constants_becomes_the_value_tvm_computes(name: str):
    module = module_of(CASES[name])
    folded = evaluate_constants(module)
    assert operators_left(folded) == set()
    np.testing.assert_allclose(result(folded), result(module), rtol=1e-6)


@pytest.mark.parametrize("sections", [2, 3, [1, 3]])
def test_parts_of_a_split_constant_are_constants_like_any_other(sections):
    """MultiheadAttention splits its weights for keys of another sequence."""

    def last(x, _):
        parts = relax.op.split(x, sections, axis=1)
        return relax.op.permute_dims(relax.TupleGetItem(parts, 1))

    module = module_of(last)
    folded = fold_constants(module)
    assert "permute_dims" not in operators_left(folded)
    np.testing.assert_array_equal(result(evaluate_constants(folded)), result(module))


def test_a_number_is_folded_too():
    module = module_of(lambda *_: relax.op.astype(relax.const(np.float32(6)), "float16"))
    assert operators_left(fold_constants(module)) == set()


def test_integer_division_is_left_to_tvm():
    builder = relax.BlockBuilder()
    with builder.function("main", []):
        with builder.dataflow():
            value = builder.emit(relax.op.divide(relax.const(np.array([-7, 7])), relax.const(np.array([2, 2]))))
            output = builder.emit_output(value)
        builder.emit_func_output(output)
    assert operators_left(fold_constants(builder.get())) == {"divide"}


def test_expressions_of_inputs_stay():
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((3, 4), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            scale = builder.emit(relax.op.sqrt(relax.const(Y)))
            output = builder.emit_output(relax.op.multiply(x, scale))
        builder.emit_func_output(output)
    assert operators_left(evaluate_constants(builder.get())) == {"multiply"}


def test_a_squeeze_leaves_the_longer_axes_that_it_names():
    """TVM's importer writes a squeeze of PyTorch without an axis in this form."""
    folded = evaluate_constants(module_of(lambda x, _: relax.op.squeeze(relax.op.reshape(x, (1, 12)), [0, 1])))
    assert operators_left(folded) == set()
    np.testing.assert_array_equal(result(folded), X.reshape(12))


def test_equal_results_are_one_constant():
    builder = relax.BlockBuilder()
    argument = relax.Var("x", relax.TensorType([2, 4], "float32"))
    with builder.function("main", [argument]):
        with builder.dataflow():
            turned = [builder.emit(relax.op.permute_dims(relax.const(values))) for values in (X, X, Y)]
            value = builder.emit(relax.op.concat([builder.emit(relax.op.matmul(argument, one)) for one in turned]))
            output = builder.emit_output(value)
        builder.emit_func_output(output)
    found: list = []
    relax.analysis.post_order_visit(
        evaluate_constants(builder.get())["main"],
        lambda node: found.append(node.args[1]) if operator_name(node) == "matmul" else None,
    )
    assert [one.same_as(found[0]) for one in found] == [True, True, False]
