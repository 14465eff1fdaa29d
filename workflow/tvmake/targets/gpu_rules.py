"""Our rules for all kernels of a module; TVM's schedule those that are left."""

from collections.abc import Collection, Iterator

import tvm

from tvmake.targets.adreno.pixel_tiles import PixelTiles
from tvmake.targets.bound_rule import BoundRule, Launching
from tvmake.targets.cuda.tensor_cores import TensorCores, good_tiles
from tvmake.targets.gpu.extrema import Extrema
from tvmake.targets.gpu.products import Products
from tvmake.targets.gpu.windows import Windows
from tvmake.targets.scheduled_kernel import in_place_of, is_scheduled

FURTHER = 7
"""Schedules of a kernel, besides the one of its rule, that a search starts from."""


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
        for rule in (PixelTiles(), TensorCores(), Products(), Windows(), Extrema()):
            made = BoundRule(rule).apply(function, target, False)
            if made is not None:
                return made
    return None


def further_schedules(function: "tvm.tirx.PrimFunc", target: "tvm.target.Target") -> Iterator["tvm.s_tir.Schedule"]:
    """Schedules that may be better than :func:`schedule_by_rule`'s, and are worth measuring: other tiles of tensor cores."""
    with target:
        for tile in good_tiles(function, target)[1 : 1 + FURTHER]:
            made = BoundRule(TensorCores(tile)).apply(function, target, False)
            if made is not None:
                yield made
