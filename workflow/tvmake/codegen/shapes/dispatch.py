"""The function that a package's users call: it calls the function for the sizes of its inputs."""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import tvm

from tvm import relax, tirx  # isort: skip


def add_dispatch(
    module: "tvm.IRModule",
    main: "relax.Function",
    functions: Mapping[str, Mapping[str, int]],
    inputs: int,
    weights: Mapping[str, Any],
) -> "tvm.IRModule":
    """Add ``main``, which calls the first function whose sizes its inputs have, or else the last function.

    Args:
        module: the functions.
        main: the network with dynamic dimensions.
        functions: sizes of dimensions by the names of functions.
        inputs: number of ``main``'s arguments that are not weights.
        weights: variables of all weights, by name.
    """
    dispatch = _Dispatch(module, list(main.params[:inputs]), weights, _any_shape(main.ret_ty))
    function = relax.Function(
        [*main.params[:inputs], *weights.values()],
        dispatch.choose(list(functions.items())),
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

    def choose(self, functions: Sequence[tuple[str, Mapping[str, int]]]) -> Any:
        (function, sizes), *others = functions
        if not others:
            return self._call(function)
        fits = reduce(
            tirx.And,
            (tirx.EQ(self.dimensions[name], tirx.IntImm("int64", size)) for name, size in sizes.items()),
        )
        condition = relax.Var("has_sizes", fits.ty)
        result = relax.Var("result", self.returned)
        choice = relax.If(condition, self._call(function), self.choose(others))
        return _sequence([relax.VarBinding(condition, fits), relax.VarBinding(result, choice)], result)

    def _call(self, name: str) -> Any:
        variable = self.module.get_global_var(name)
        function = self.module[variable]
        casts, arguments = [], []
        for given, parameter in zip(self.inputs, function.params, strict=False):
            arguments.append(relax.Var(str(parameter.name), parameter.ty))
            casts.append(relax.MatchCast(arguments[-1], given, parameter.ty))
        arguments += [self.weights[str(parameter.name)] for parameter in function.params[len(arguments) :]]
        result = relax.Var("result", function.ret_ty)
        return _sequence([*casts, relax.VarBinding(result, relax.Call(variable, arguments))], result)


def _sequence(bindings: list[Any], result: Any) -> Any:
    return relax.SeqExpr([relax.BindingBlock(bindings)], result)


def _any_shape(kind: Any) -> Any:
    """A type without sizes: those of the functions differ."""
    if isinstance(kind, relax.TupleType):
        return relax.TupleType([_any_shape(part) for part in kind.fields])
    return relax.TensorType(dtype=kind.dtype.dtype, ndim=kind.ndim) if isinstance(kind, relax.TensorType) else kind
