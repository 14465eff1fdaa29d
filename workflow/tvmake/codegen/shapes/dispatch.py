"""The function that a package's users call: it calls the function for the sizes of its inputs."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import tvm
import tvm_ffi

from tvmake.codegen.shapes.choices import any_shape, choose, sequence
from tvmake.codegen.shapes.row_functions import RowFunction

from tvm import relax, tirx  # isort: skip


def add_dispatch(
    module: "tvm.IRModule",
    main: "relax.Function",
    functions: Mapping[str, Mapping[str, int]],
    inputs: int,
    weights: Mapping[str, Any],
    row_functions: Sequence[RowFunction] = (),
) -> "tvm.IRModule":
    """Add ``main``, which calls the first function whose sizes its inputs have, or else the last function.

    Args:
        module: the functions.
        main: the network with dynamic dimensions.
        functions: sizes of dimensions by the names of functions.
        inputs: number of ``main``'s arguments that are not weights.
        weights: variables of all weights, by name.
        row_functions: compared after the functions, for other numbers of rows.
    """
    dispatch = _Dispatch(module, list(main.params[:inputs]), weights, any_shape(main.ret_ty))
    cases = [(sizes, partial(dispatch.call, name)) for name, sizes in functions.items()]
    cases += [(rows.group.sizes, partial(dispatch.call_rows, rows)) for rows in row_functions]
    function = relax.Function(
        [*main.params[:inputs], *weights.values()],
        dispatch.choose(cases),
        dispatch.returned,
        attrs=tvm.ir.make_node("ir.DictAttrs", **{**dict(main.attrs or {}), "global_symbol": "main"}),
    )
    changed = tvm.IRModule(dict(module.functions_items()), attrs=module.attrs, global_infos=module.global_infos)
    changed["main"] = function
    return relax.transform.Normalize()(changed)


class _Dispatch:
    def __init__(self, module: "tvm.IRModule", inputs: list[Any], weights: Mapping[str, Any], returned: Any):
        self.module, self.inputs, self.weights, self.returned = module, inputs, weights, returned
        symbols = relax.analysis.defined_symbolic_vars(relax.Function(inputs, relax.Tuple([]), relax.TupleType([])))
        self.dimensions = {str(symbol.name): symbol for symbol in symbols}

    def choose(self, cases: Sequence[tuple[Mapping[str, int], Callable[[], Any]]]) -> Any:
        """An expression that calls the first function whose sizes the inputs have, or else the last one."""
        (sizes, call), *others = cases
        if not others:
            return call()
        fits = reduce(
            tirx.And,
            (tirx.EQ(self.dimensions[name], tirx.IntImm("int64", size)) for name, size in sizes.items()),
        )
        return choose(fits, call(), self.choose(others), self.returned)

    def call(self, name: str) -> Any:
        """Call a function for the sizes of the inputs."""
        variable = self.module.get_global_var(name)
        function = self.module[variable]
        casts, arguments = self._cast([(str(given.name), given.ty) for given in function.params[: len(self.inputs)]])
        arguments += [self.weights[str(parameter.name)] for parameter in function.params[len(arguments) :]]
        result = relax.Var("result", function.ret_ty)
        return sequence([*casts, relax.VarBinding(result, relax.Call(variable, arguments))], result)

    def call_rows(self, rows: RowFunction) -> Any:
        """Call the function for any number of rows, for all rows of the inputs."""
        total = self.dimensions[rows.group.dimension]

        def with_total(kind: Any) -> Any:
            return tvm_ffi.structural_map(kind, (tvm.ir.Var, lambda size: total if size.name == total.name else size))

        casts, arguments = self._cast([(str(given.name), with_total(given.ty)) for given in rows.inputs])
        sizes = relax.ShapeExpr([tirx.const(0, "int64"), total])
        result = relax.Var("result", self.returned)
        call = relax.Call(rows.variable, [*arguments, sizes, *self.weights.values()])
        return sequence([*casts, relax.VarBinding(result, call)], result)

    def _cast(self, parameters: Sequence[tuple[str, Any]]) -> tuple[list[Any], list[Any]]:
        """Bindings of the inputs with the types of parameters, and their variables."""
        variables = [relax.Var(name, kind) for name, kind in parameters]
        casts = [
            relax.MatchCast(variable, given, variable.ty)
            for variable, given in zip(variables, self.inputs, strict=True)
        ]
        return casts, list(variables)
