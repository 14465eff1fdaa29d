"""Import the Relax module that ``package.module:function`` returns: check it, rename its entry to ``main``, separate parameters."""

import hashlib
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from tvmake.artifact.signature import Dim, Signature, TensorSpec
from tvmake.errors import InputError
from tvmake.frontend.configured_inputs import check_inputs, rename_bounds, with_ranges
from tvmake.frontend.imported import ImportedModel
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.relax_fixes import correct_operators, drop_unused_params, lift_constants, with_main
from tvmake.frontend.trust import check_trusted
from tvmake.ir.bounds import bounds_of, with_bounds
from tvmake.process.user_code import guard_call, load_function

from tvm import relax  # isort: skip

_RETURN = "return an IRModule, or a pair of one and its parameters by name"


def read(source: Path, options: ImportOptions) -> ImportedModel:
    """Call the function with ``options.arguments`` as keywords, and import the module that it returns.

    The function returns an ``IRModule`` with a single Relax function (or with one called ``main``), or a pair of the module and its
    parameters by the arguments' names, as a mapping or as pairs (as from ``export_tvm`` of TVM's ``nn``). Arguments without a
    parameter are the inputs, and come first. The random states of Python and numpy are seeded with ``options.seed``: the function is
    called again for the reference, and must return the same parameters.

    Raises:
        InputError: the source is not trusted; the function cannot be found, fails, or returns something else; TVM finds the module
            badly formed; parameters do not fit; inputs or outputs are not tensors; ``options.inputs`` does not fit.
    """
    check_trusted(options)
    where = str(source)
    module, values = _call(where, options)
    module = _with_entry(where, module)
    module, params = _separate_parameters(where, module, values)
    signature = _signature(where, module, len(params))
    check_inputs(where, signature, options.inputs)
    module = _bind_dimensions(module, signature, options)
    digest = _digest(params)
    module, params = drop_unused_params(module, params)
    module, constants = lift_constants(correct_operators(module))
    return ImportedModel(
        module=module,
        params=params | constants,
        signature=with_ranges(_signature(where, module, len(params) + len(constants)), options.inputs),
        notes={"format": "relax", "tvm": tvm.__version__, "weights": digest},
    )


def _call(where: str, options: ImportOptions) -> tuple["tvm.IRModule", dict[str, Any]]:
    function = load_function(where, where)
    random.seed(options.seed)
    np.random.seed(options.seed % 2**32)
    with guard_call(where, "the function fails", function):
        returned = function(**options.arguments)
    module, parameters = returned if isinstance(returned, tuple) and len(returned) == 2 else (returned, {})
    if not isinstance(module, tvm.IRModule):
        hint = "; leave `format: relax` out for one that returns an nn.Module" if hasattr(module, "forward") else ""
        raise InputError(where, f"the function returns {type(module).__name__}, not an IRModule", _RETURN + hint)
    pairs = parameters.items() if isinstance(parameters, Mapping) else parameters
    try:
        return module, {str(name): value for name, value in pairs}
    except (TypeError, ValueError) as error:
        raise InputError(where, f"its parameters are {type(parameters).__name__}, without names", _RETURN) from error


def _with_entry(where: str, module: "tvm.IRModule") -> "tvm.IRModule":
    """The module with its entry renamed to ``main``; refuses a badly formed module."""
    functions = {var.name_hint: f for var, f in module.functions.items() if isinstance(f, relax.Function)}
    if "main" not in functions:
        if len(functions) != 1:
            listing = ", ".join(sorted(functions)) or "none"
            raise InputError(
                where, f"its module has no function 'main'; its Relax functions: {listing}", "call one 'main'"
            )
        [(name, entry)] = functions.items()
        module = tvm.IRModule(
            {var: f for var, f in module.functions.items() if var.name_hint != name}, global_infos=module.global_infos
        )
        module["main"] = entry.with_attr("global_symbol", "main")
    try:
        relax.analysis.well_formed(module)
    except Exception as error:
        line = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        problem = f"TVM finds its module badly formed: {line[:300]}"
        raise InputError(where, problem, "relax.analysis.well_formed(module) says the same") from error
    return module


def _separate_parameters(
    where: str, module: "tvm.IRModule", values: Mapping[str, Any]
) -> tuple["tvm.IRModule", dict[str, Any]]:
    """The module with its inputs before its parameters, and the parameters by the arguments' names."""
    main = module["main"]
    by_name = dict(values)
    names = [var.name for var in main.params]
    unknown = [name for name in by_name if name not in names]
    if unknown:
        raise InputError(
            where, f"its function 'main' has no argument '{unknown[0]}'", f"its arguments: {', '.join(names)}"
        )
    inputs = [var for var in main.params if var.name not in by_name]
    count = int((main.attrs or {}).get("num_input", len(inputs)))
    if count < len(inputs):
        raise InputError(where, f"its parameter '{inputs[count].name}' has no value", _RETURN)
    weights = [var for var in main.params if var.name in by_name]
    params = {var.name: _array(where, var, by_name[var.name]) for var in weights}
    if [*inputs, *weights] != list(main.params):
        module = with_main(module, [*inputs, *weights], main.body, main.ret_ty)
    return module, params


def _array(where: str, var: Any, value: Any) -> Any:
    value = getattr(value, "data", value) if type(value).__module__.startswith("tvm.relax.frontend.nn") else value
    value = value.numpy() if hasattr(value, "numpy") else value
    if value is None:
        raise InputError(where, f"its parameter '{var.name}' has no value", "give each parameter's data an array")
    array = np.asarray(value)
    kind = var.ty
    shape = tuple(_extent(extent) for extent in kind.shape.values) if getattr(kind, "shape", None) is not None else None
    if (array.shape, str(array.dtype)) != (shape, str(kind.dtype)):
        problem = f"its parameter '{var.name}' is {array.dtype} {array.shape}, the argument is {kind}"
        raise InputError(where, problem, "give it the argument's type and shape")
    return array


def _extent(extent: Any) -> Dim:
    return int(extent) if isinstance(extent, tvm.tirx.IntImm) else str(extent)


def _signature(where: str, module: "tvm.IRModule", params: int) -> Signature:
    main = module["main"]
    inputs = main.params[: len(main.params) - params]
    kind = main.ret_ty
    fields = list(kind.fields) if isinstance(kind, relax.TupleType) else [kind]
    names = ["output"] if not isinstance(kind, relax.TupleType) else [f"output_{n}" for n in range(len(fields))]
    return Signature(
        inputs=tuple(_spec(where, var.name, var.ty) for var in inputs),
        outputs=tuple(_spec(where, name, field) for name, field in zip(names, fields, strict=True)),
        bounds=bounds_of(module),
    )


def _spec(where: str, name: str, kind: Any) -> TensorSpec:
    if not isinstance(kind, relax.TensorType) or kind.shape is None:
        problem = f"'{name}' is {kind}, not a tensor of a known shape"
        raise InputError(where, problem, "take and return tensors only, and give them shapes")
    return TensorSpec(
        name=name, relax_name=name, shape=tuple(_extent(extent) for extent in kind.shape.values), dtype=str(kind.dtype)
    )


def _bind_dimensions(module: "tvm.IRModule", signature: Signature, options: ImportOptions) -> "tvm.IRModule":
    """The module with the sizes and dimension names of the config."""
    binding: dict[str, Any] = {}
    for spec in signature.inputs:
        shape = options.inputs[spec.name].shape if spec.name in options.inputs else None
        for name, extent in zip(spec.shape, shape or (), strict=False):
            if isinstance(name, str) and name != extent:
                binding[name] = tvm.tirx.Var(extent, "int64") if isinstance(extent, str) else extent
    if not binding:
        return module
    names = {name: str(extent.name) if isinstance(extent, tvm.tirx.Var) else extent for name, extent in binding.items()}
    bounds = rename_bounds(bounds_of(module), names)
    return with_bounds(relax.transform.BindSymbolicVars(binding, "main")(module), bounds)


def _digest(params: Mapping[str, Any]) -> str:
    """The sha256 of all parameters with their names, types and shapes."""
    digest = hashlib.sha256()
    for name, value in sorted(params.items()):
        digest.update(f"{name} {value.dtype} {value.shape}\n".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()
