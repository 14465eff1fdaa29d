"""Import StableHLO: convert a checked program to Relax, operator by operator.

Replaces TVM's importer. Repair: `stablehlo-attributes`.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tvm

from tvmake.artifact.signature import Signature
from tvmake.errors import InputError
from tvmake.frontend.configured_inputs import check_inputs, with_extents, with_ranges
from tvmake.frontend.imported import ImportedModel
from tvmake.frontend.lowering.tables import merge_tables
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.relax_fixes import lift_constants
from tvmake.frontend.size_conditions import settle_sizes
from tvmake.frontend.stablehlo import (
    branches,
    complex_numbers,
    dot_and_convolution,
    elementwise,
    gather,
    reductions,
    scatter,
    select_and_scatter,
    shapes,
    sort,
)
from tvmake.frontend.stablehlo.conversion import Conversion, Converter, extents
from tvmake.frontend.stablehlo.dynamic import operators as dynamic_operators
from tvmake.frontend.stablehlo.dynamic.arguments import main_arguments
from tvmake.frontend.stablehlo.dynamic.constraints import SHAPE_ASSERTION, Constraints
from tvmake.frontend.stablehlo.loops import while_loops
from tvmake.frontend.stablehlo.sizes.arithmetic import variables_of
from tvmake.frontend.stablehlo.source import Program, load, operators, primitives
from tvmake.ir.bounds import bounds_of, with_bounds
from tvmake.ir.size_checks import stated_types
from tvmake.ir.size_expressions import size_text

from tvm import relax, tirx  # isort: skip

CONVERTERS: Mapping[str, Converter] = merge_tables(
    dot_and_convolution.CONVERTERS,
    dynamic_operators.CONVERTERS,
    elementwise.CONVERTERS,
    gather.CONVERTERS,
    reductions.CONVERTERS,
    scatter.CONVERTERS,
    select_and_scatter.CONVERTERS,
    shapes.CONVERTERS,
    sort.CONVERTERS,
)
"""Converters on real values, by the full name of an operator or a composite."""

STRUCTURES = merge_tables(branches.STRUCTURES, while_loops.STRUCTURES)
"""Converters of loops and branches, by the operator's name."""

_CALLS = {"func.call", "func.return", "stablehlo.return", "stablehlo.composite", SHAPE_ASSERTION}


def read(source: Path, options: ImportOptions) -> ImportedModel:
    """Import a StableHLO program: text, bytecode or a portable artifact; weights become trailing arguments of ``main``.

    Raises:
        InputError: the file is unusable, or uses operators that are not converted (all of them are listed);
            ``options.inputs`` does not fit.
    """
    where = str(source)
    program = load(source)
    counts = _count_operators(where, program)
    check_inputs(where, program.signature, options.inputs)
    constraints = Constraints()
    structures = {**STRUCTURES, SHAPE_ASSERTION: constraints.convert}
    conversion = Conversion(where, program, CONVERTERS, complex_numbers.CONVERTERS, structures, elementwise.ELEMENTWISE)
    specs = program.signature.inputs
    arguments = main_arguments(conversion, specs, with_extents(program.signature, options.inputs).inputs)
    constraints.add(variables_of(size for argument in arguments for size in extents(argument)))
    conversion.origins.update(
        {var: spec.name for var, spec in zip(arguments, specs, strict=True) if spec.dtype.startswith(("int", "uint"))}
    )
    builder = conversion.builder
    with builder.function("main", arguments):
        with builder.dataflow():
            results = [conversion.whole(value) for value in conversion.function(program.main.name.value, arguments)]
            returned = builder.emit_output(results[0] if len(results) == 1 else relax.Tuple(results))
        builder.emit_func_output(returned)
    module = builder.finalize()
    if any(not isinstance(size, int) for argument in arguments for size in extents(argument)):
        module = settle_sizes(with_bounds(module, constraints.bounds), builder.equal_sizes, where)
    module, params = lift_constants(module)
    ranges = {name: (0.0, float(rows - 1)) for name, rows in conversion.rows.items()}
    signature = _signature(module, program.signature, ranges)
    return ImportedModel(
        module=module,
        params=params,
        signature=with_ranges(signature, options.inputs),
        notes={
            "format": "stablehlo",
            "operators": sorted(counts),
            **({"slow": list(dict.fromkeys(conversion.slow))} if conversion.slow else {}),
        },
    )


def _signature(module: "tvm.IRModule", declared: Signature, ranges: Mapping[str, tuple[float, float]]) -> Signature:
    """The signature with the dimensions of the module's inputs and outputs."""
    inputs = [
        spec.model_copy(update={"shape": _dimensions(variable.ty), "range": ranges.get(spec.name)})
        for spec, variable in zip(declared.inputs, module["main"].params, strict=False)
    ]
    outputs = [
        spec.model_copy(update={"shape": _dimensions(kind)})
        for spec, kind in zip(declared.outputs, stated_types(module["main"]), strict=True)
    ]
    return Signature(inputs=tuple(inputs), outputs=tuple(outputs), bounds=bounds_of(module))


def _dimensions(kind: Any) -> tuple[int | str, ...]:
    return tuple(int(size) if isinstance(size, tirx.IntImm) else size_text(size) for size in kind.shape.values)


def _origin(program: Program, operator: str) -> str:
    names = set().union(*(primitives(function.regions[0], operator) for function in program.functions.values()))
    return f", of jax' {', '.join(sorted(names))}" if names else ""


def _count_operators(where: str, program: Program) -> Counter[str]:
    counts: Counter[str] = Counter()
    replaced = {f"{name}.impl" for name in CONVERTERS}  # names of decompositions of jax' composites
    for name, function in program.functions.items():
        if name not in replaced:
            counts += operators(function.regions[0])
    known = {*CONVERTERS, *complex_numbers.CONVERTERS, *STRUCTURES, *_CALLS}
    missing = {name: count for name, count in counts.items() if name not in known}
    if missing:
        listing = ", ".join(f"{name} ({count}×{_origin(program, name)})" for name, count in sorted(missing.items()))
        problem = f"{len(missing)} {'operator is' if len(missing) == 1 else 'operators are'} not converted: {listing}"
        raise InputError(where, problem, "export the network without them, or use its PyTorch or ONNX form")
    return counts
