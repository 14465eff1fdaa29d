"""Rewrite the graph functions of a module."""

import tvm
from tvm import te

from tvmake.ir.expressions import bindings, is_call, operator_name
from tvmake.ir.rewriting import definition, rewritten, with_functions

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip
from tvm.script import ir as I, relax as R, tirx as T  # isort: skip


@I.ir_module(check_well_formed=False)
class Network:
    I.module_attrs({"kept": 1})

    @T.prim_func
    def kernel(a: T.Buffer((2,), "float32")):
        a[0] = a[1]

    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        with R.dataflow():
            y = R.negative(x)
            z = y
            w = R.negative(z)
            R.output(w)
        return w

    @R.function
    def other(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        y = R.negative(x)
        return y


@mutator
class _TwoNegations(PyExprMutator):
    """A negation of a negation as a ReLU, so that the test sees that it was found."""

    def visit_call_(self, op):
        call = self.visit_expr_post_order(op)
        if is_call(call, "negative") and is_call(definition(self, call.args[0]), "negative"):
            return relax.op.nn.relu(call.args[0])
        return call


def _operators(module, name):
    return [operator_name(binding.value) for binding in bindings(module[name]) if operator_name(binding.value)]


def test_every_graph_function_is_rewritten_and_the_rest_stays():
    changed = rewritten(Network, _TwoNegations(Network))
    assert _operators(changed, "main") == ["negative", "nn.relu"]
    assert _operators(changed, "other") == ["negative"]
    assert changed["kernel"].same_as(Network["kernel"])
    assert dict(changed.attrs) == dict(Network.attrs)


def test_the_given_module_is_not_changed():
    before = Network.script()
    rewritten(Network, _TwoNegations(Network))
    with_functions(Network, {"other": Network["main"]})
    assert Network.script() == before


def test_functions_are_replaced_by_name_or_variable():
    for name in ("other", Network.get_global_var("other")):
        changed = with_functions(Network, {name: Network["main"]})
        assert _operators(changed, "other") == ["negative", "negative"]
        assert _operators(changed, "main") == ["negative", "negative"]


def test_a_parameter_and_an_expression_are_their_own_definition():
    seen = []

    @mutator
    class Looking(PyExprMutator):
        def visit_call_(self, op):
            seen.append((op.args[0], definition(self, op.args[0])))
            return op

    rewritten(Network, Looking(Network))
    parameter = Network["main"].params[0]
    assert any(value.same_as(parameter) and found.same_as(parameter) for value, found in seen)


def test_a_kernel_that_a_mutator_adds_comes_with_the_module():
    @mutator
    class Adding(PyExprMutator):
        def visit_call_(self, op):
            return self.builder_.call_te(lambda x: te.compute(x.shape, lambda i: -x[i]), op.args[0])

    changed = rewritten(Network, Adding(Network))
    assert set(_operators(changed, "main")) == {"call_tir"}
    kernels = [function for _, function in changed.functions_items() if isinstance(function, tvm.tirx.PrimFunc)]
    assert len(kernels) == 2 and dict(changed.attrs) == dict(Network.attrs)
