"""Compute the sizes that no function of a package has, in rows: a batch of 3 padded to 8, or one of 11 in two calls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm

from tvmake.artifact.manifest import RowRange
from tvmake.codegen.lowering import LoweringOptions, allocate_further_results, schedule_further_kernels
from tvmake.codegen.shapes.independent_rows import DependentRows, RowAxes, row_axes
from tvmake.codegen.shapes.row_functions import RowFunction, RowGroup, add_row_functions
from tvmake.codegen.shapes.row_ranges import row_ranges
from tvmake.errors import InputError
from tvmake.ir.rewriting import with_functions
from tvmake.transform.user_passes import apply_user_passes

Shape = Mapping[str, int]

NO_ROWS = RowAxes((), ())


@dataclass(frozen=True)
class Rows:
    """The groups of a package's functions that compute other numbers of rows; none if there is dynamic code."""

    groups: Sequence[RowGroup] = ()
    axes: RowAxes = NO_ROWS
    why_not: str = ""
    """Why other sizes are refused, if they are."""

    @property
    def ranges(self) -> dict[str, RowRange]:
        """The numbers of rows for which each function is chosen, by its name."""
        ranges = {}
        for group in self.groups:
            starts = sorted(group.starts.items())
            ends = [start - 1 for _, start in starts[1:]]
            for (size, least), most in zip(starts, [*ends, None], strict=True):
                ranges[group.functions[size]] = RowRange(dimension=group.dimension, least=least, most=most)
        return ranges

    def add(
        self, module: "tvm.IRModule", main: Any, weights: Mapping[str, Any], how: LoweringOptions, *, finishes: bool
    ) -> tuple["tvm.IRModule", list[RowFunction]]:
        """Add the functions ``rows`` of all groups, with all that they call.

        Args:
            module: the functions for fixed sizes.
            main: the network with dynamic dimensions.
            weights: variables of all weights, by name.
            finishes: whether to allocate the functions' tensors, as in functions with planned memory.
        """
        known = set(module.get_global_vars())
        row_functions = []
        for group in self.groups:
            module, function = add_row_functions(module, group, self.axes, weights)
            row_functions.append(function)
        if not row_functions:
            return module, []
        functions = {variable: function for variable, function in module.functions_items() if variable not in known}
        added = tvm.IRModule(functions, global_infos=module.global_infos)
        added = schedule_further_kernels(added, main, how)
        if finishes:
            added = allocate_further_results(added, how)
        return with_functions(
            module, {variable: added[str(variable.name_hint)] for variable in functions}
        ), row_functions


def rows_of(module: "tvm.IRModule", functions: Mapping[str, Shape], how: LoweringOptions) -> Rows:
    """How the functions compute other numbers of rows, along the first dimension whose rows are provably independent.

    Args:
        module: the network with dynamic dimensions.
        functions: sizes of dimensions by the names of functions.
    """
    shapes = list(functions.values())
    if not all(shapes):
        return Rows()  # one function is dynamic
    names = [name for name in shapes[0] if all(name in shape for shape in shapes)]
    reasons = {}
    for name in names:
        try:
            axes = row_axes(_analysed_network(module, how), name, how.inputs)
        except DependentRows as reason:
            reasons[name] = str(reason)
        else:
            return Rows(_groups(name, functions), axes)
    texts = [f"rows of {name} are not provably independent: {reason}" for name, reason in reasons.items()]
    return Rows(why_not="; ".join(texts) or "the shapes have no dimension in common")


def _analysed_network(module: "tvm.IRModule", how: LoweringOptions) -> "tvm.IRModule":
    if any(user_pass.at != "before_legalize" for user_pass in how.passes):
        raise DependentRows("a pass of the config changes kernels")
    try:
        with how.target:
            return apply_user_passes(module, how.passes, "before_legalize")
    except InputError as error:
        raise DependentRows("a pass of the config fails for dynamic dimensions") from error


def _groups(dimension: str, functions: Mapping[str, Shape]) -> list[RowGroup]:
    """The functions with equal sizes of all other dimensions."""
    groups: dict[tuple[tuple[str, int], ...], dict[int, str]] = {}
    for function, shape in functions.items():
        others = tuple(sorted((name, size) for name, size in shape.items() if name != dimension))
        groups.setdefault(others, {})[shape[dimension]] = function
    return [RowGroup(dimension, dict(others), by_size, row_ranges(by_size)) for others, by_size in groups.items()]
