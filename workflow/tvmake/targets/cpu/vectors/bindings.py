"""Compute values that an expression uses more than once in statements before it.

The values are stored in buffers of one value or vector, which LLVM turns into registers. Repair: `inlined-bindings`.
"""

from collections.abc import Callable
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.expressions import dtype_name, is_call
from tvmake.targets.cpu.vectors.registers import ON_STACK
from tvmake.targets.cpu.vectors.split_concat_loops import CONDITIONALS

tirx = tvm.tirx


class Bindings:
    """The values of an expression's variables, in order of computation."""

    def __init__(self) -> None:
        self._values: dict[Any, Any] = {}

    def bind(self, name: str, value: Any) -> Any:
        """A new variable for a value."""
        variable = tirx.Var(name, value.ty)
        self._values[variable] = value
        return variable

    def around(self, expression: Any) -> Any:
        """Wrap an expression in the variables that it needs, directly or indirectly, and forget them."""
        needed: set[Any] = set()
        remaining = _variables(expression)
        while remaining:
            variable = remaining.pop()
            if variable in self._values and variable not in needed:
                needed.add(variable)
                remaining |= _variables(self._values[variable])
        for variable in [variable for variable in reversed(self._values) if variable in needed]:
            expression = tirx.Let(variable, self._values.pop(variable), expression)
        return expression

    def before(self, store: Any) -> Any:
        """A store after the stores of all variables' values."""
        if not self._values:
            return store
        loads: dict[Any, Any] = {}
        statements: list[Any] = []
        for variable, value in self._values.items():
            dtype, _, lanes = dtype_name(variable.ty).partition("x")
            buffer = tirx.decl_buffer((int(lanes or 1),), dtype, name=variable.name, scope="local")
            index = tirx.Ramp(0, 1, int(lanes)) if lanes else tirx.const(0, "int32")
            statements += [
                tirx.AllocBuffer(buffer, {ON_STACK: tirx.const(1, "int32")}),
                tirx.BufferStore(buffer, _substitute(value, loads), [index]),
            ]
            loads[variable] = tirx.BufferLoad(buffer, [index])
        return tirx.SeqStmt(
            [*statements, tirx.BufferStore(store.buffer, _substitute(store.value, loads), store.indices)]
        )


def replace_calls(body: Any, replacement: Callable[[Any, Bindings], Any]) -> Any:
    """Replace the calls in a function's body, inner calls first.

    Args:
        replacement: gives the replacement of a call, with its variables in the bindings; or the call itself, unchanged.
    """

    def rewrite_store(store: Any) -> Any:
        bindings = Bindings()

        def rewrite_call(call: Any) -> Any:
            if is_call(call, *CONDITIONALS):  # the branch not taken may read out of bounds
                condition, *values = call.args
                return tirx.if_then_else(condition, *map(bindings.around, values))
            return replacement(call, bindings)

        def rewrite_let(let: Any) -> Any:  # values that depend on its variable must follow it
            return tirx.Let(let.var, let.value, bindings.around(let.body))

        value = tvm_ffi.structural_map(store.value, [(tvm.ir.Call, rewrite_call), (tirx.Let, rewrite_let)])
        if value.same_as(store.value):
            return store
        return bindings.before(tirx.BufferStore(store.buffer, value, store.indices))

    def rewrite_lone_call(call: Any) -> Any:
        bindings = Bindings()
        return bindings.around(replacement(call, bindings))

    # Calls outside stores, such as in conditions.
    return tvm_ffi.structural_map(
        tvm_ffi.structural_map(body, (tirx.BufferStore, rewrite_store)), (tvm.ir.Call, rewrite_lone_call)
    )


def _variables(expression: Any) -> set[Any]:
    result: set[Any] = set()
    tvm_ffi.structural_walk(expression, (tirx.Var, result.add))
    return result


def _substitute(expression: Any, loads: dict[Any, Any]) -> Any:
    return tvm_ffi.structural_map(expression, (tirx.Var, lambda variable: loads.get(variable, variable)))
