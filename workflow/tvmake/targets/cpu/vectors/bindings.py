"""Values that an expression uses more than once, computed one after the other in front of the statement that stores it.

They are kept in buffers of one value or vector, which LLVM turns into registers. Repair: `inlined-bindings`.
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
    """What the variables of one expression stand for, in the order in which they are computed."""

    def __init__(self) -> None:
        self._values: dict[Any, Any] = {}

    def bind(self, name: str, value: Any) -> Any:
        """A new variable for a value."""
        variable = tirx.Var(name, value.ty)
        self._values[variable] = value
        return variable

    def around(self, expression: Any) -> Any:
        """An expression within the variables that it needs, directly or through others; they are forgotten here."""
        needed: set[Any] = set()
        remaining = _variables(expression)
        while remaining:
            variable = remaining.pop()
            if variable in self._values and variable not in needed:
                needed.add(variable)
                remaining |= _variables(self._values[variable])
        for variable in [one for one in reversed(self._values) if one in needed]:
            expression = tirx.Let(variable, self._values.pop(variable), expression)
        return expression

    def before(self, store: Any) -> Any:
        """A store, and in front of it those of the values of all variables."""
        if not self._values:
            return store
        loads: dict[Any, Any] = {}
        statements: list[Any] = []
        for variable, value in self._values.items():
            dtype, _, lanes = dtype_name(variable.ty).partition("x")
            buffer = tirx.decl_buffer((int(lanes or 1),), dtype, name=variable.name, scope="local")
            place = tirx.Ramp(0, 1, int(lanes)) if lanes else tirx.const(0, "int32")
            statements += [
                tirx.AllocBuffer(buffer, {ON_STACK: tirx.const(1, "int32")}),
                tirx.BufferStore(buffer, _with(value, loads), [place]),
            ]
            loads[variable] = tirx.BufferLoad(buffer, [place])
        return tirx.SeqStmt([*statements, tirx.BufferStore(store.buffer, _with(store.value, loads), store.indices)])


def with_calls_replaced(body: Any, replacement: Callable[[Any, Bindings], Any]) -> Any:
    """A function's body whose calls are replaced, those in others' arguments first.

    Args:
        replacement: what to put in a call's place, with variables of its own in the bindings; the call itself to leave it.
    """

    def stored(store: Any) -> Any:
        bindings = Bindings()

        def replaced(call: Any) -> Any:
            if is_call(call, *CONDITIONALS):  # the value that is not taken may be read outside of its buffer
                condition, *values = call.args
                return tirx.if_then_else(condition, *map(bindings.around, values))
            return replacement(call, bindings)

        def within(let: Any) -> Any:  # what depends on its variable stays behind it
            return tirx.Let(let.var, let.value, bindings.around(let.body))

        value = tvm_ffi.structural_map(store.value, [(tvm.ir.Call, replaced), (tirx.Let, within)])
        if value.same_as(store.value):
            return store
        return bindings.before(tirx.BufferStore(store.buffer, value, store.indices))

    def alone(call: Any) -> Any:
        bindings = Bindings()
        return bindings.around(replacement(call, bindings))

    # The calls that stores leave are those of conditions and the like.
    return tvm_ffi.structural_map(tvm_ffi.structural_map(body, (tirx.BufferStore, stored)), (tvm.ir.Call, alone))


def _variables(expression: Any) -> set[Any]:
    found: set[Any] = set()
    tvm_ffi.structural_walk(expression, (tirx.Var, found.add))
    return found


def _with(expression: Any, loads: dict[Any, Any]) -> Any:
    return tvm_ffi.structural_map(expression, (tirx.Var, lambda variable: loads.get(variable, variable)))
