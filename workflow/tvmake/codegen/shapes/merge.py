"""Put functions with their kernels into one module."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tvm
import tvm_ffi

from tvmake.artifact.weights.names import unused_name

from tvm import relax  # isort: skip

MAIN, SYMBOL = "main", "global_symbol"

EXTERNAL = "external_mods"
"""TVM's attribute of modules with compiled code for other libraries."""


@dataclass
class KernelNames:
    """Names for the kernels of several modules: the same for equal kernels with equal tiles, else different ones."""

    _kernels: dict[str, tuple[Any, int | None]] = field(default_factory=dict)

    def apply(self, module: "tvm.IRModule", widths: Mapping[str, int]) -> tuple["tvm.IRModule", dict[str, int]]:
        """Rename a module's unscheduled kernels, and the functions of its loops.

        Args:
            widths: the numbers of adjacent results of tiles, by kernel.

        Returns:
            The module, and the widths by the new names.
        """
        names: dict[str, str] = {}
        for variable, function in module.functions_items():
            name = str(variable.name_hint)
            if name != MAIN:
                names[name] = self._name(name, function.without_attr(SYMBOL), widths.get(name))
        renamed = rename_functions(module, lambda name: names.get(name, name))
        return renamed, {names[name]: width for name, width in widths.items()}

    def _name(self, name: str, function: Any, width: int | None) -> str:
        # Equal functions of a loop may call different kernels of one name, so each module keeps its own.
        for known, (kernel, its_width) in self._kernels.items() if isinstance(function, tvm.tirx.PrimFunc) else ():
            if width == its_width and tvm_ffi.structural_equal(kernel, function):
                return known
        chosen = unused_name(name, {*self._kernels})
        self._kernels[chosen] = function, width
        return chosen


def rename_functions(module: "tvm.IRModule", new_name: Callable[[str], str]) -> "tvm.IRModule":
    """Rename a module's functions other than ``main``."""
    variables = {
        variable: _variable(function, name)
        for variable, function in module.functions_items()
        if (name := new_name(str(variable.name_hint))) != str(variable.name_hint)
    }
    functions = {
        variables.get(variable, variable): _with_symbol(_with_variables(function, variables), variables.get(variable))
        for variable, function in module.functions_items()
    }
    return tvm.IRModule(functions, attrs=module.attrs, global_infos=module.global_infos)


def merge(modules: Mapping[str, "tvm.IRModule"]) -> "tvm.IRModule":
    """A module with the ``main`` of each module under another name.

    Args:
        modules: by the names of functions; kernels of one name are equal.
    """
    merged: dict[Any, Any] = {}
    by_name: dict[str, Any] = {}
    for name, module in modules.items():
        shared = {
            variable: by_name[str(variable.name_hint)]
            for variable in module.get_global_vars()
            if str(variable.name_hint) in by_name
        }
        for variable, function in module.functions_items():
            if variable in shared:
                assert tvm_ffi.structural_equal(merged[shared[variable]], function), str(variable.name_hint)
            elif str(variable.name_hint) != MAIN:
                by_name[str(variable.name_hint)] = variable
                merged[variable] = _with_variables(function, shared)
        main = _with_variables(module[MAIN], shared)
        variable = _variable(main, name)
        merged[variable] = _with_symbol(main, variable)
    first = next(iter(modules.values()))
    return tvm.IRModule(merged, attrs=_attributes([*modules.values()]), global_infos=first.global_infos)


def _attributes(modules: Sequence["tvm.IRModule"]) -> Any:
    """The first module's attributes, with the code of all modules for other libraries."""
    first = modules[0].attrs
    code = [part for module in modules for part in (module.attrs or {}).get(EXTERNAL, [])]
    return tvm.ir.make_node("ir.DictAttrs", **{**dict(first), EXTERNAL: code}) if first and code else first


def _variable(function: Any, name: str) -> Any:
    # Block builders set the type.
    return relax.BlockBuilder().add_func(function.without_attr(SYMBOL), name)


def _with_symbol(function: Any, variable: Any | None) -> Any:
    if variable is None or SYMBOL not in (function.attrs or {}):
        return function
    return function.with_attr(SYMBOL, str(variable.name_hint))


def _with_variables(function: Any, variables: Mapping[Any, Any]) -> Any:
    if not variables or not isinstance(function, relax.Function):
        return function
    return tvm_ffi.structural_map(function, (tvm.ir.GlobalVar, lambda variable: variables.get(variable, variable)))
