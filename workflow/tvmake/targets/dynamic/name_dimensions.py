"""Replace arithmetic on dynamic dimensions by variables in the shapes of a kernel's tensors.

A network with ``height`` input rows has kernels over ``(height - 1) // 16 + 1`` rows. TVM copies the expression into
every index, which takes most of a build's time. It also gives the kernel additional arguments, and cannot divide by the
expression. A tensor knows its number of rows, so the kernel reads the number from there. The graph keeps the
expressions for memory planning.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.expressions import is_call

from tvm import relax, tirx  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

EXPRESSIONS = (tirx.Add, tirx.Sub, tirx.Mul, tirx.FloorDiv, tirx.FloorMod, tirx.Max, tirx.Min)


def name_dimensions(module: "tvm.IRModule") -> "tvm.IRModule":
    """Give kernels only constants and variables as dimensions, and merge kernels that are then equal."""
    kernels = [
        (str(variable.name_hint), function)
        for variable, function in module.functions_items()
        if isinstance(function, tirx.PrimFunc)
    ]
    if not any(_compound_dimensions(function) and not _is_reshape(function) for _, function in kernels):
        return module
    functions: dict[str, tuple[Any, list[int]]] = {}
    """By kernel: its new function, and the positions of its remaining arguments."""
    for name, function in kernels:
        if _is_dynamic(function) and not _is_reshape(function):
            is_compound = bool(_compound_dimensions(function))
            functions[name] = _with_names(function) if is_compound else (function, list(range(len(function.params))))
    # Separate variables, because their types describe the kernels' arguments.
    builder = relax.BlockBuilder()
    variables = {name: builder.add_func(function, name) for name, (function, _) in functions.items()}
    changed = {
        variables.get(str(variable.name_hint), variable): functions.get(str(variable.name_hint), (function, []))[0]
        for variable, function in module.functions_items()
    }
    renamed = tvm.IRModule(changed, attrs=module.attrs, global_infos=module.global_infos)
    arguments = {name: positions for name, (_, positions) in functions.items()}
    caller = _KernelCaller(renamed, variables, arguments)
    for variable, function in list(renamed.functions_items()):
        if isinstance(function, relax.Function):
            renamed[variable] = caller.visit_expr(function)
    return renamed


def _is_dynamic(function: Any) -> bool:
    return any(not isinstance(dimension, tirx.IntImm) for dimension in _dimensions(function))


def _is_reshape(function: Any) -> bool:
    """Whether TVM recognises a kernel as a reshape, which it does by products of dimensions."""
    try:
        return bool(relax.analysis.has_reshape_pattern(function))
    except tvm.error.InternalError:  # Repair: `reshape-pattern-of-sums`.
        return False


def _compound_dimensions(function: Any) -> list[Any]:
    """The distinct dimensions of a kernel's tensors that are expressions, the largest first."""
    compound: list[Any] = []
    for dimension in map(tvm.sym.Analyzer().simplify, _dimensions(function)):
        is_compound = not isinstance(dimension, tvm.ir.Var | tirx.IntImm)
        if is_compound and not any(tvm_ffi.structural_equal(dimension, known) for known in compound):
            compound.append(dimension)
    return sorted(compound, key=lambda dimension: -_size(dimension))


def _own_dimensions(function: Any, names: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Simplified dimensions of a kernel's internal buffers, the largest first, in terms of its tensors' dimensions."""
    analyzer = tvm.sym.Analyzer()
    own: list[tuple[Any, Any]] = []
    for buffer in function.body.block.alloc_buffers if isinstance(function.body, tvm.s_tir.SBlockRealize) else ():
        for dimension in buffer.shape:
            simple, named = analyzer.simplify(dimension), analyzer.simplify(_replace(dimension, names))
            is_plain = isinstance(simple, tvm.ir.Var | tirx.IntImm) or isinstance(named, tvm.ir.Var | tirx.IntImm)
            if not is_plain and not tvm_ffi.structural_equal(simple, named):
                own.append((simple, named))
    return sorted(own, key=lambda pair: -_size(pair[0]))


def _dimensions(function: Any) -> Iterator[Any]:
    for parameter in function.params:
        yield from getattr(parameter.ty, "shape", ())


def _size(expression: Any) -> int:
    nodes: list[Any] = []
    tvm_ffi.structural_walk(expression, (object, nodes.append))
    return len(nodes)


def _with_names(function: Any) -> tuple[Any, list[int]]:
    """A kernel with variables for dimensions, and the positions of the arguments that it still needs."""
    names = []
    for number, dimension in enumerate(_compound_dimensions(function)):
        name = tirx.Var(f"dim{number}", dimension.ty.dtype)
        names.append((dimension, name))
        if isinstance(dimension, tirx.Add) and isinstance(dimension.b, tirx.IntImm):
            names.append((dimension.a, name - dimension.b))
    # Loops simplify the dimensions of their results, so that those of arguments can no longer be recognised.
    function = _simplify(_replace(function, [*_own_dimensions(function, names), *names]))
    used: list[Any] = []
    tvm_ffi.structural_walk(
        [function.body, [list(getattr(parameter.ty, "shape", ())) for parameter in function.params]],
        (tvm.ir.Var, used.append),
    )
    positions = [
        position
        for position, parameter in enumerate(function.params)
        if hasattr(parameter.ty, "shape") or any(parameter.same_as(variable) for variable in used)
    ]
    if len(positions) < len(function.params):
        function = tirx.PrimFunc(
            [function.params[position] for position in positions],
            function.body,
            function.ret_type,
            attrs=function.attrs,
        )
    return function, positions


def _simplify(function: Any) -> Any:
    """A kernel with simplified integer expressions."""
    analyzer = tvm.sym.Analyzer()

    def simplify(expression: Any) -> Any:
        return analyzer.simplify(expression) if _is_index(expression) else expression

    return tvm_ffi.structural_map(function, (EXPRESSIONS, simplify), order="pre")


def _replace(node: Any, replacements: Sequence[tuple[Any, Any]]) -> Any:
    """Replace expressions that are equal to given simplified expressions, outer ones first."""
    analyzer = tvm.sym.Analyzer()

    def exchange(expression: Any) -> Any:
        if not _is_index(expression):
            return expression
        simple = analyzer.simplify(expression)
        return next((new for old, new in replacements if tvm_ffi.structural_equal(simple, old)), expression)

    return tvm_ffi.structural_map(node, (EXPRESSIONS, exchange), order="pre")


def _is_index(expression: Any) -> bool:
    return str(expression.ty.dtype) in ("int32", "int64")


@mutator
class _KernelCaller(PyExprMutator):
    """Calls kernels with their remaining arguments."""

    def __init__(self, module: "tvm.IRModule", variables: Mapping[str, Any], positions: Mapping[str, list[int]]):
        super().__init__(module)
        self._variables = variables
        self._positions = positions

    def visit_call_(self, op: Any) -> Any:
        call = self.visit_expr_post_order(op)
        name = str(call.args[0].name_hint) if is_call(call, "call_tir") else ""
        if name not in self._positions:
            return call
        values = list(call.args[1].fields)
        arguments = [values[position] for position in self._positions[name] if position < len(values)]
        return relax.Call(call.op, [self._variables[name], relax.Tuple(arguments)], call.attrs, call.ty_args)
