"""Our rules for all kernels of a module; TVM's schedule those that are left."""

from collections.abc import Collection, Iterator
from typing import Any

import tvm

from tvmake.targets.adreno.pixel_tiles import PixelTiles
from tvmake.targets.bound_rule import BoundRule, Launching, general_rules
from tvmake.targets.cuda.tensor_cores import TensorCores, good_tiles
from tvmake.targets.gpu.extrema import Extrema
from tvmake.targets.gpu.products import Products
from tvmake.targets.gpu.windows import Windows
from tvmake.targets.schedule_checks import is_bound
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


def default_rules(target: "tvm.target.Target") -> list[Any]:
    """The rules for kernels of a GPU that none of ours suits: the first that has a schedule gives it, and the last has one for every kernel."""
    from tvmake.targets.adreno import passes

    return [Launching(), *(passes.rules() if "adreno" in target.keys else []), *general_rules()]


def default_schedule(function: "tvm.tirx.PrimFunc", target: "tvm.target.Target") -> "tvm.s_tir.Schedule | None":
    """The schedule that :func:`default_rules` give a kernel, with its trace; None for one that comes with threads or cannot have any."""
    launching, *rules = default_rules(target)
    if launching.apply(function, target, False) is not None:
        return None
    with target:
        made = next((made for rule in rules if (made := rule.apply(function, target, False)) is not None), None)
    return made if made is not None and is_bound(made.mod["main"]) else None


def further_schedules(function: "tvm.tirx.PrimFunc", target: "tvm.target.Target") -> Iterator["tvm.s_tir.Schedule"]:
    """Schedules that may be better than :func:`schedule_by_rule`'s, and are worth measuring: other tiles of tensor cores."""
    with target:
        for tile in good_tiles(function, target)[1 : 1 + FURTHER]:
            made = BoundRule(TensorCores(tile)).apply(function, target, False)
            if made is not None:
                yield made
