"""Our rules for all kernels of a module; TVM's schedule those that are left."""

from collections.abc import Collection

import tvm

from tvmake.targets.adreno.pixel_tiles import PixelTiles
from tvmake.targets.bound_rule import BoundRule, Launching
from tvmake.targets.gpu.products import Products
from tvmake.targets.gpu.windows import Windows
from tvmake.targets.scheduled_kernel import in_place_of, is_scheduled


def apply_rules(module: "tvm.IRModule", target: "tvm.target.Target", refused: Collection[str] = ()) -> "tvm.IRModule":
    """Schedule the kernels of a module that are not scheduled yet and that a rule suits.

    Args:
        module: Relax calling fused kernels.
        target: a GPU.
        refused: names of kernels to leave as they are.
    """
    functions = dict(module.functions_items())
    for variable, function in functions.items():
        is_kernel = isinstance(function, tvm.tirx.PrimFunc) and not is_scheduled(function)
        if is_kernel and str(variable.name_hint) not in refused:
            made = schedule_by_rule(function, target)
            functions[variable] = function if made is None else in_place_of(function, made.mod["main"])
    return tvm.IRModule(functions, attrs=module.attrs, global_infos=module.global_infos)


def schedule_by_rule(function: "tvm.tirx.PrimFunc", target: "tvm.target.Target") -> "tvm.s_tir.Schedule | None":
    """A kernel's schedule for a GPU, with its trace; None where none of our rules suits it."""
    if Launching().apply(function, target, False) is not None:
        return None
    with target:
        for rule in (PixelTiles(), Products(), Windows()):
            made = BoundRule(rule).apply(function, target, False)
            if made is not None:
                return made
    return None
