"""Prove that the rows of a network along a dimension, such as its batch, are independent of each other.

Row i of each value then depends on the rows i of the inputs only, and not on i or on the number of rows. So a function
for a fixed number of rows computes any rows, also beside rows that nobody needs.

Operators are analysed as the loops that TVM computes them with. An operator without such loops counts as dependent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.expressions import bindings, is_call, operator_name

from tvm import relax, s_tir, tirx  # isort: skip

VIEWS = ("reshape", "flatten")
"""Operators that keep the order of elements; their loops divide by dynamic dimensions."""

SHAPES = ("shape_of", "tensor_to_shape", "shape_to_tensor")
PACKED = ("call_pure_packed", "call_dps_packed", "call_inplace_packed")

POINTERS = ("tirx.address_of", "tirx.tvm_access_ptr")

COMBINES = "may read several rows"
NUMBERS = "may depend on the number of a row, or on how many there are"
UNKNOWN = "has loops that cannot be analysed"
FROM_SHAPE = "a layer computes with the shape of a tensor, which is known at run time"
OF_RUNTIME = "a layer is a function of the runtime, such as a sort, which tvmake cannot analyse"


class DependentRows(Exception):
    """The rows are not provably independent. Its text is the reason."""


@dataclass(frozen=True)
class RowAxes:
    """The axis of each input and output of a network along which its rows are; None for a value that all rows share."""

    inputs: tuple[int | None, ...]
    outputs: tuple[int | None, ...]


@dataclass(frozen=True)
class _Rows:
    """The position of rows in a tensor."""

    axis: int
    length: Any
    """Elements of the axis for each row: of ``batch * heads`` the number of heads."""


_State = Any
"""Of a value: rows, None without rows, or a tuple of states."""


def row_axes(module: "tvm.IRModule", dimension: str, inputs: int) -> RowAxes:
    """The positions of a network's rows along a dynamic dimension.

    Args:
        module: operators in ``main``, before they become kernels.
        inputs: number of network inputs among ``main``'s arguments; the others are weights.

    Raises:
        DependentRows: the rows are not provably independent.
    """
    try:
        legal = relax.transform.LegalizeOps(skip_ops=[f"relax.{name}" for name in VIEWS])(module)
    except (tvm.error.InternalError, RuntimeError, ValueError, TypeError, AttributeError, IndexError) as error:
        raise DependentRows("TVM has no loops for an operator with dynamic dimensions") from error
    main = legal["main"]
    symbols = {str(symbol.name): symbol for symbol in relax.analysis.defined_symbolic_vars(main)}
    analysis = _Network(legal, _Dimension(symbols[dimension]))
    states = [analysis.argument(parameter) for parameter in main.params]
    if any(states[inputs:]):
        raise DependentRows(f"the shape of a weight has the dimension {dimension}")
    result = analysis.run()
    outputs = list(result) if isinstance(result, tuple) else [result]
    return RowAxes(tuple(map(_axis, states[:inputs])), tuple(map(_axis, outputs)))


def _axis(state: _State) -> int | None:
    if isinstance(state, tuple) or (state is not None and not _is_one(state.length)):
        raise DependentRows("an input or output has several elements for each row of an axis")
    return None if state is None else state.axis


def _is_one(value: Any) -> bool:
    return isinstance(value, tirx.IntImm) and int(value) == 1


@dataclass(frozen=True)
class _Dimension:
    """The dimension whose rows are analysed."""

    symbol: Any

    def is_in(self, expression: Any) -> bool:
        found: list[Any] = []
        tvm_ffi.structural_walk(expression, (tvm.ir.Var, found.append))
        return any(variable.same_as(self.symbol) for variable in found)

    def length(self, extent: Any) -> Any | None:
        """How many elements of an axis each row has; None if the axis has no rows."""
        if not isinstance(extent, tvm.ir.Expr) or not self.is_in(extent):
            return None
        analyzer = tvm.sym.Analyzer()
        one = tirx.const(1, self.symbol.ty.dtype)
        length = analyzer.simplify(tvm_ffi.structural_map(extent, (tvm.ir.Var, self._replace_by(one))))
        if self.is_in(length) or not analyzer.can_prove_equal(extent, self.symbol * length):
            raise DependentRows(f"an axis is not a multiple of {self.symbol.name}")
        return length

    def _replace_by(self, value: Any) -> Any:
        return lambda variable: value if variable.same_as(self.symbol) else variable

    def rows(self, shape: Sequence[Any]) -> _Rows | None:
        """The position of rows in a tensor of a shape."""
        found = [
            _Rows(axis, length) for axis, extent in enumerate(shape) if (length := self.length(extent)) is not None
        ]
        if len(found) > 1:
            raise DependentRows("a value has two axes of that dimension")
        return found[0] if found else None


def _same(left: Any, right: Any) -> bool:
    return tvm_ffi.structural_equal(left, right) or tvm.sym.Analyzer().can_prove_equal(left, right)


def _same_rows(left: _Rows | None, right: _Rows | None) -> bool:
    if left is None or right is None:
        return left is right
    return left.axis == right.axis and _same(left.length, right.length)


class _Network:
    """The states of a network's values."""

    def __init__(self, module: "tvm.IRModule", dimension: _Dimension):
        self.module, self.dimension = module, dimension
        self.states: dict[Any, _State] = {}

    def argument(self, parameter: Any) -> _Rows | None:
        shape = _shape(parameter.ty)
        self.states[parameter] = None if shape is None else self.dimension.rows(shape)
        return self.states[parameter]

    def run(self) -> _State:
        main = self.module["main"]
        for binding in bindings(main):
            if isinstance(binding, relax.MatchCast):
                self.states[binding.var] = self._cast(binding)
            else:
                self.states[binding.var] = self._state(binding.value, binding.var.ty)
        return self._state(main.body.body, main.ret_ty)

    def _state(self, value: Any, kind: Any) -> _State:
        if _is_scalar(value):
            if self.dimension.is_in(value):
                raise DependentRows("a value depends on the number of rows")
            return None
        match value:
            case relax.Var():
                return self.states[value]
            case relax.Tuple():
                return tuple(self._state(field, field.ty) for field in value.fields)
            case relax.TupleGetItem():
                state = self._state(value.tuple_value, value.tuple_value.ty)
                return state[value.index] if isinstance(state, tuple) else state
            case relax.Call():
                return self._call(value, kind)
        if isinstance(value, relax.If):
            raise DependentRows("a branch depends on the data")
        return None  # a constant, or a shape, whose uses are analysed

    def _cast(self, binding: Any) -> _State:
        state, shape = self._state(binding.value, binding.value.ty), _shape(binding.var.ty)
        if isinstance(state, tuple):
            raise DependentRows("a size is checked at run time")
        if state is None:
            return None
        rows = self.dimension.rows(shape or ())
        if not _same_rows(rows, state):
            raise DependentRows("a size is checked at run time")
        return state

    def _call(self, call: Any, kind: Any) -> _State:
        if is_call(call, "call_tir"):
            return self._kernel(call)
        name = operator_name(call) or str(getattr(call.op, "name_hint", "") or getattr(call.op, "global_symbol", ""))
        states = [self._state(argument, argument.ty) for argument in call.args]
        if is_call(call, *VIEWS):
            return self._view(states[0], _shape(call.args[0].ty), _shape(kind), name)
        if is_call(call, *SHAPES):
            raise DependentRows(FROM_SHAPE)
        if is_call(call, *PACKED) or isinstance(call.op, relax.ExternFunc):
            raise DependentRows(OF_RUNTIME)
        raise DependentRows(f"`{name}` {UNKNOWN}")

    def _view(self, state: Any, before: Sequence[Any] | None, after: Sequence[Any] | None, name: str) -> _State:
        if before is None or after is None:
            raise DependentRows(f"`{name}` {UNKNOWN}")
        rows = self.dimension.rows(after)
        if state is None or rows is None:
            if state is not None or rows is not None:
                raise DependentRows(f"`{name}` {COMBINES}")
            return None
        if not _same(_product(before[: state.axis]), _product(after[: rows.axis])):
            raise DependentRows(f"`{name}` {COMBINES}")
        return rows

    def _kernel(self, call: Any) -> _State:
        kernel, arguments = self.module[call.args[0]], list(call.args[1].fields)
        states = [None if _is_scalar(argument) else self._state(argument, argument.ty) for argument in arguments]
        (result,) = call.ty_args
        results = list(getattr(result, "fields", None) or [result])
        sizes: dict[Any, Any] = {}
        for parameter, given in zip(kernel.params, [*arguments, *results], strict=True):
            if _is_scalar(parameter):
                sizes[parameter] = given
                continue
            for extent, size in zip(parameter.ty.shape, _shape(getattr(given, "ty", given)) or (), strict=False):
                if isinstance(extent, tvm.ir.Var):
                    sizes.setdefault(extent, size)
        loops = _Loops(str(call.args[0].name_hint), self.dimension, sizes)
        loops.states |= dict(zip(kernel.params, states, strict=False))
        loops.visit(kernel.body)
        written = kernel.params[len(arguments) : len(arguments) + len(results)]
        if any(parameter not in loops.states for parameter in written):
            raise loops.error(UNKNOWN)
        found = tuple(loops.states[parameter] for parameter in written)
        for state, given in zip(found, results, strict=True):
            rows = self.dimension.rows(_shape(given) or ())
            if not _same_rows(rows, state):
                raise loops.error(UNKNOWN)
        return found[0] if result is results[0] else found


@dataclass
class _Loops:
    """The states of a kernel's tensors."""

    name: str
    dimension: _Dimension
    sizes: Mapping[Any, Any]
    """The network's extents for the kernel's dimensions and scalars."""
    states: dict[Any, _State] = field(default_factory=dict)
    loops: dict[Any, tuple[Any, Any]] = field(default_factory=dict)
    """The variables that count rows: the loop, and the elements of each row."""
    conditions: list[Any] = field(default_factory=list)

    def error(self, reason: str) -> DependentRows:
        return DependentRows(FROM_SHAPE if self.name.rstrip("0123456789") in SHAPES else f"`{self.name}` {reason}")

    def visit(self, statement: Any) -> None:
        match statement:
            case tirx.SeqStmt():
                for part in statement.seq:
                    self.visit(part)
            case tirx.For():
                if (length := self._length(statement.extent)) is not None:
                    self.loops[statement.loop_var] = statement.loop_var, length
                self._check(statement.min)
                self.visit(statement.body)
            case tirx.IfThenElse():
                self._under(statement.condition, [statement.then_case, statement.else_case])
            case s_tir.SBlockRealize():
                self._block(statement)
            case tirx.BufferStore():
                self._store(statement)
            case _:
                raise self.error(UNKNOWN)

    def _under(self, condition: Any, statements: Sequence[Any]) -> None:
        self.conditions.append(condition)
        for statement in statements:
            if statement is not None:
                self.visit(statement)
        self.conditions.pop()

    def _block(self, realize: Any) -> None:
        block = realize.block
        if block.match_buffers:
            raise self.error(UNKNOWN)
        for axis, value in zip(block.iter_vars, realize.iter_values, strict=True):
            if isinstance(value, tvm.ir.Var) and value in self.loops:
                self.loops[axis.var] = self.loops[value]
            else:
                self._check(value)
                if self._length(axis.dom.extent) is not None:
                    raise self.error(UNKNOWN)
        self._under(realize.predicate, [block.init, block.body])

    def _length(self, extent: Any) -> Any | None:
        return self.dimension.length(self._resolve(extent))

    def _resolve(self, extent: Any) -> Any:
        return tvm_ffi.structural_map(extent, (tvm.ir.Var, lambda variable: self.sizes.get(variable, variable)))

    def _store(self, store: Any) -> None:
        axes = [
            axis for axis, index in enumerate(store.indices) if isinstance(index, tvm.ir.Var) and index in self.loops
        ]
        if len(axes) > 1:
            raise self.error(COMBINES)
        loop = self.loops[store.indices[axes[0]]] if axes else None
        rows = _Rows(axes[0], loop[1]) if loop else None
        extents = [self._length(extent) for extent in store.buffer.ty.shape]
        if [axis for axis, length in enumerate(extents) if length is not None] != axes:
            raise self.error(COMBINES)
        if loop is not None and not _same(extents[axes[0]], loop[1]):
            raise self.error(COMBINES)
        known = self.states.setdefault(store.buffer, rows)
        if not _same_rows(known, rows):
            raise self.error(COMBINES)
        for axis, index in enumerate(store.indices):
            if axis not in axes:
                self._check(index)
        for expression in (store.value, *self.conditions):
            self._check(expression)
        for load in _loads([store.value, *store.indices, *self.conditions]):
            self._load(load, loop)

    def _load(self, load: Any, loop: tuple[Any, Any] | None) -> None:
        if load.source not in self.states:
            raise self.error(UNKNOWN)
        state = self.states[load.source]
        for axis, index in enumerate(load.indices):
            if state is None or axis != state.axis:
                self._check(index)
            elif loop is None or not self._counts(index, loop[0]) or not _same(state.length, loop[1]):
                raise self.error(COMBINES)

    def _counts(self, index: Any, loop: Any) -> bool:
        """Whether an index is the number of the row in a loop."""
        return isinstance(index, tvm.ir.Var) and index in self.loops and self.loops[index][0].same_as(loop)

    def _check(self, expression: Any) -> None:
        """Refuse expressions that count rows, or pass pointers, outside the indices of tensors."""
        calls: list[Any] = []
        tvm_ffi.structural_walk(expression, (tvm.ir.Call, calls.append))
        for call in calls:
            if not _is_pure(call.op):
                raise self.error(UNKNOWN)
        plain = tvm_ffi.structural_map(expression, (tvm.ir.TensorLoad, lambda load: tirx.const(0, load.ty.dtype)))
        variables: list[Any] = []
        tvm_ffi.structural_walk(plain, (tvm.ir.Var, variables.append))
        for variable in variables:
            if variable in self.loops or self.dimension.is_in(self._resolve(variable)):
                raise self.error(NUMBERS)
            if not isinstance(variable.ty, tvm.ir.PrimType):
                raise self.error(UNKNOWN)


def _is_pure(operator: Any) -> bool:
    """Whether an operator computes a value from its operands alone."""
    if not isinstance(operator, tvm.ir.Op) or str(operator.name) in POINTERS:
        return False
    effect = operator.get_attr("TCallEffectKind")
    return effect is not None and int(effect) <= tirx.CallEffectKind.Pure.value


def _is_scalar(value: Any) -> bool:
    return isinstance(getattr(value, "ty", None), tvm.ir.PrimType)


def _loads(expressions: Sequence[Any]) -> list[Any]:
    loads: list[Any] = []
    for expression in expressions:
        tvm_ffi.structural_walk(expression, (tvm.ir.TensorLoad, loads.append))
    return loads


def _product(extents: Sequence[Any]) -> Any:
    return reduce(lambda product, extent: product * extent, extents, tirx.const(1, "int64"))


def _shape(kind: Any) -> Sequence[Any] | None:
    shape = getattr(kind, "shape", None)
    return getattr(shape, "values", None) if shape is not None else None
