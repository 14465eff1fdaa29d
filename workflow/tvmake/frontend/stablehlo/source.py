"""Read a StableHLO file, text or bytecode, and refuse an unusable model in one line. This module does not import TVM."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jax.extend import mlir
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import chlo, func, sdy, stablehlo

from tvmake.artifact.signature import Signature, TensorSpec
from tvmake.errors import InputError
from tvmake.frontend.source_file import open_source

BYTECODE = b"ML\xefR"
"""First bytes of MLIR's bytecode; in portable artifacts, StableHLO follows as the producer."""

DTYPES = {
    "f32": "float32", "f64": "float64", "i1": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "ui8": "uint8", "ui16": "uint16", "ui32": "uint32", "ui64": "uint64",
}  # fmt: skip
"""TVM's dtypes by StableHLO's element types."""

_HALF = {"f16": "float16", "bf16": "bfloat16"}
AS_FLOAT32 = "export it in float32, and ask for `precisions: [float16]`"
_EXPORT = "export it again: jax.export.export(jax.jit(function))(*inputs).mlir_module()"


@dataclass(frozen=True)
class Program:
    """A parsed module. ``context`` owns it and must live as long."""

    module: Any
    context: Any
    functions: dict[str, Any]
    """All functions (``func.func``) by name."""
    main: Any
    signature: Signature


def load(source: Path) -> Program:
    """The checked program.

    Raises:
        InputError: no such file; not MLIR, or MLIR of other dialects; no entry function; inputs or outputs that are not
            tensors, or have a dynamic dimension or an unsupported type.
    """
    where = str(source)
    with open_source(source, ".mlir", _EXPORT) as file:
        data = file.read()
    context = _context()
    module = _parse(where, data, context)
    functions = {op.name.value: op for op in module.body.operations if isinstance(op, func.FuncOp)}
    public = [f for f in functions.values() if "sym_visibility" not in f.attributes or f.visibility.value == "public"]
    main = functions.get("main") or (public[0] if len(public) == 1 else None)
    if main is None:
        raise InputError(where, f"has no function 'main', and {len(public)} that are public", _EXPORT)
    return Program(module, context, functions, main, _signature(where, main))


def inspect(source: Path) -> Signature:
    """The program's inputs and outputs. Raises as ``load``."""
    return load(source).signature


def tensor_type(kind: Any) -> tuple[tuple[int, ...], str] | None:
    """Shape and dtype of a tensor of fixed shape and a supported type; None for anything else."""
    if not isinstance(kind, ir.RankedTensorType) or not kind.has_static_shape:
        return None
    dtype = DTYPES.get(str(kind.element_type))
    return (tuple(kind.shape), dtype) if dtype else None


def complex_type(kind: Any) -> tuple[tuple[int, ...], str] | None:
    """Shape and dtype of the parts of a complex tensor of fixed shape; None for anything else."""
    if not isinstance(kind, ir.RankedTensorType) or not kind.has_static_shape:
        return None
    dtype = {"complex<f32>": "float32", "complex<f64>": "float64"}.get(str(kind.element_type))
    return (tuple(kind.shape), dtype) if dtype else None


def half(kind: Any) -> str | None:
    """The element type of a tensor of 16-bit floats; None for anything else."""
    return _HALF.get(str(kind.element_type)) if isinstance(kind, ir.RankedTensorType) else None


def operators(region: Any) -> Counter[str]:
    """Counts of operators, including nested regions; custom calls are counted by their target."""
    counts: Counter[str] = Counter()
    for block in region.blocks:
        for op in block.operations:
            counts[operator(op)] += 1
            for inner in op.regions:
                counts += operators(inner)
    return counts


def operator(op: Any) -> str:
    """An operator's name; for a custom call with its target."""
    name = str(op.operation.name)
    return f"custom_call @{op.call_target_name.value}" if name == "stablehlo.custom_call" else name


def primitives(region: Any, name: str) -> set[str]:
    """jax' names of the primitives that led to an operator, from the locations."""
    names: set[str] = set()
    for block in region.blocks:
        for op in block.operations:
            if operator(op) == name:
                location = op.location
                path = location.name_str if isinstance(location, ir.NameLoc) else ""
                names |= {path.rpartition("/")[2].rstrip(":")} - {""}
            for inner in op.regions:
                names |= primitives(inner, name)
    return names


def _context() -> Any:
    """A context with the dialects that jax exports.

    Reading an artifact registers ``func``, for which there is no function. This does not start jax' runtime, whose threads would
    not survive a fork.
    """
    context = ir.Context()
    for dialect in (chlo, sdy, stablehlo):
        dialect.register_dialect(context)
    empty = mlir.serialize_portable_artifact(ir.Module.parse("module {}", context), stablehlo.get_minimum_version())
    mlir.deserialize_portable_artifact(empty, context)
    return context


def _parse(where: str, data: bytes, context: Any) -> Any:
    try:
        if data.startswith(BYTECODE) and b"StableHLO" in data[:64]:
            module = mlir.deserialize_portable_artifact(data, context)
        else:
            module = ir.Module.parse(data if data.startswith(BYTECODE) else data.decode(), context)
    except UnicodeDecodeError as error:
        raise InputError(where, "is neither MLIR text nor bytecode", _EXPORT) from error
    except (ir.MLIRError, RuntimeError, ValueError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        detail = next((line for line in lines if line.startswith("error")), lines[-1] if lines else "")
        raise InputError(where, f"is not a StableHLO module: {detail[:200]}", _EXPORT) from error
    return module


def _signature(where: str, main: Any) -> Signature:
    results = main.type.results
    notes: Sequence[Any] = (
        list(main.attributes["res_attrs"]) if "res_attrs" in main.attributes else [None] * len(results)
    )
    if not len(results):
        raise InputError(where, "the function 'main' returns nothing", _EXPORT)
    names: set[str] = set()
    inputs = tuple(
        _spec(where, _input_name(argument, index), argument.type, names)
        for index, argument in enumerate(main.arguments)
    )
    outputs = tuple(
        _spec(where, _output_name(note, index, len(results)), kind, set())
        for index, (note, kind) in enumerate(zip(notes, results, strict=True))
    )
    if len({spec.name for spec in outputs}) < len(outputs):
        outputs = tuple(spec.model_copy(update={"name": f"output_{index}"}) for index, spec in enumerate(outputs))
    return Signature(inputs=inputs, outputs=outputs)


def _input_name(argument: Any, index: int) -> str:
    """The name in the program's location, written by jax; text without locations has none."""
    location = argument.location
    return location.name_str if isinstance(location, ir.NameLoc) and location.name_str else f"arg{index}"


def _output_name(note: Any, index: int, count: int) -> str:
    """``a`` for jax' ``result['a']``; elements of a tuple, and outputs without a note, are numbered."""
    path = str(note["jax.result_info"].value) if note is not None and "jax.result_info" in note else ""
    parts = re.findall(r"\['([^']+)'\]|\.(\w+)|\[(\d+)\]", path)
    keys = [next(filter(None, part)) for part in parts]
    if not keys:
        return "output" if count == 1 else f"output_{index}"
    return "_".join(keys if not keys[0].isdigit() else ["output", *keys])


def _spec(where: str, name: str, kind: Any, names: set[str]) -> TensorSpec:
    type_ = tensor_type(kind)
    if type_ is None:
        raise InputError(where, *_refusal(name, kind))
    relax_name = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "input"
    relax_name = relax_name if relax_name[0].isalpha() else f"input_{relax_name}"
    while relax_name in names:
        relax_name += "_"
    names.add(relax_name)
    return TensorSpec(name=name, relax_name=relax_name, shape=type_[0], dtype=type_[1])


def _refusal(name: str, kind: Any) -> tuple[str, str]:
    if not isinstance(kind, ir.RankedTensorType):
        return f"'{name}' is not a tensor, but {kind}", "export a function of arrays only"
    if not kind.has_static_shape:
        return (
            f"a dimension of '{name}' is dynamic: {kind}",
            "export it for one shape: jax.export.export(jax.jit(f))(jax.ShapeDtypeStruct((1, 224, 224, 3), 'float32'))",
        )
    if (width := half(kind)) is not None:
        return f"'{name}' is {width}", AS_FLOAT32
    element = str(kind.element_type)
    remedy = "export it with another type"
    if element.startswith("complex"):
        remedy = "take and return pairs of real numbers"
    return f"'{name}' has the type {element}, which is not read", remedy
