"""StableHLO: a checked program becomes Relax, operator by operator.

It takes the place of TVM's importer. Repair: `stablehlo-attributes`.
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
"""The table from an operator, by its full name or that of a composite, to its converter on real values."""

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
    found = _operators(where, program)
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
        notes={"format": "stablehlo", "operators": sorted(found)},
    )


def _origin(program: Program, operator: str) -> str:
    found = set().union(*(primitives(function.regions[0], operator) for function in program.functions.values()))
    return f", of jax' {', '.join(sorted(found))}" if found else ""


def _operators(where: str, program: Program) -> Counter[str]:
    found: Counter[str] = Counter()
    replaced = {f"{name}.impl" for name in CONVERTERS}  # what decompositions of jax' composites are called
    for name, function in program.functions.items():
        if name not in replaced:
            found += operators(function.regions[0])
    known = {*CONVERTERS, *complex_numbers.CONVERTERS, *_STRUCTURE}
    missing = {name: count for name, count in found.items() if name not in known}
    if missing:
        listing = ", ".join(f"{name} ({count}×{_origin(program, name)})" for name, count in sorted(missing.items()))
        problem = f"{len(missing)} {'operator is' if len(missing) == 1 else 'operators are'} not converted: {listing}"
        raise InputError(
            where, problem, "leave them out of what is exported, or take the network's PyTorch or ONNX form"
        )
    return found
