"""Import StableHLO: convert a checked program to Relax, operator by operator.

Replaces TVM's importer. Repair: `stablehlo-attributes`.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tvmake.errors import InputError
from tvmake.frontend.configured_inputs import check_inputs, with_ranges
from tvmake.frontend.imported import ImportedModel
from tvmake.frontend.lowering.tables import merge_tables
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.relax_fixes import lift_constants
from tvmake.frontend.stablehlo import (
    complex_numbers,
    dot_and_convolution,
    elementwise,
    reductions,
    scatter,
    select_and_scatter,
    shapes,
    sort,
)
from tvmake.frontend.stablehlo.conversion import Conversion, Converter
from tvmake.frontend.stablehlo.source import Program, load, operators, primitives

from tvm import relax  # isort: skip

CONVERTERS: Mapping[str, Converter] = merge_tables(
    dot_and_convolution.CONVERTERS,
    elementwise.CONVERTERS,
    reductions.CONVERTERS,
    scatter.CONVERTERS,
    select_and_scatter.CONVERTERS,
    shapes.CONVERTERS,
    sort.CONVERTERS,
)
"""Converters on real values, by the full name of an operator or a composite."""

_STRUCTURE = {"func.call", "func.return", "stablehlo.return", "stablehlo.composite"}
_STRUCTURE |= {"stablehlo.while", "stablehlo.case", "stablehlo.if"}


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
    conversion = Conversion(where, program, CONVERTERS, complex_numbers.CONVERTERS)
    specs = program.signature.inputs
    arguments = [relax.Var(spec.relax_name, relax.TensorType(spec.shape, spec.dtype)) for spec in specs]
    conversion.origins.update(
        {var: spec.name for var, spec in zip(arguments, specs, strict=True) if spec.dtype.startswith(("int", "uint"))}
    )
    builder = conversion.builder
    with builder.function("main", arguments):
        with builder.dataflow():
            results = [conversion.whole(value) for value in conversion.function(program.main.name.value, arguments)]
            returned = builder.emit_output(results[0] if len(results) == 1 else relax.Tuple(results))
        builder.emit_func_output(returned)
    module, params = lift_constants(builder.finalize())
    ranges = {name: (0.0, float(rows - 1)) for name, rows in conversion.rows.items()}
    signature = program.signature.model_copy(
        update={"inputs": tuple(spec.model_copy(update={"range": ranges.get(spec.name)}) for spec in specs)}
    )
    return ImportedModel(
        module=module,
        params=params,
        signature=with_ranges(signature, options.inputs),
        notes={"format": "stablehlo", "operators": sorted(counts)},
    )


def _origin(program: Program, operator: str) -> str:
    names = set().union(*(primitives(function.regions[0], operator) for function in program.functions.values()))
    return f", of jax' {', '.join(sorted(names))}" if names else ""


def _count_operators(where: str, program: Program) -> Counter[str]:
    counts: Counter[str] = Counter()
    replaced = {f"{name}.impl" for name in CONVERTERS}  # names of decompositions of jax' composites
    for name, function in program.functions.items():
        if name not in replaced:
            counts += operators(function.regions[0])
    known = {*CONVERTERS, *complex_numbers.CONVERTERS, *_STRUCTURE}
    missing = {name: count for name, count in counts.items() if name not in known}
    if missing:
        listing = ", ".join(f"{name} ({count}×{_origin(program, name)})" for name, count in sorted(missing.items()))
        problem = f"{len(missing)} {'operator is' if len(missing) == 1 else 'operators are'} not converted: {listing}"
        raise InputError(where, problem, "export the network without them, or use its PyTorch or ONNX form")
    return counts
