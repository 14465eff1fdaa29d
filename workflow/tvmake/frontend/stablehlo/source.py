"""Read a StableHLO file, text or bytecode, and refuse an unusable model in one line. This module does not import TVM."""

import re
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
from jax.extend import mlir
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import chlo, func, sdy, stablehlo

from tvmake.artifact.signature import Signature, TensorSpec
from tvmake.errors import InputError, MachineError
from tvmake.frontend.source_file import open_source
from tvmake.frontend.stablehlo.sizes.declared_dimensions import declared_shapes

BYTECODE = b"ML\xefR"
"""First bytes of MLIR's bytecode; in portable artifacts, StableHLO follows as the producer."""

DTYPES = {
    "f32": "float32", "f64": "float64", "i1": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "ui8": "uint8", "ui16": "uint16", "ui32": "uint32", "ui64": "uint64",
}  # fmt: skip
"""TVM's dtypes by StableHLO's element types."""

PLATFORM = "_platform_index"
"""jax' name of the argument that selects the code of a platform."""

WRAPPED = "_wrapped_jax_export_main"
"""The function that ``main`` of a program with dynamic dimensions calls after its assertions."""

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
            tensors, or have an unsupported type.
    """
    where = str(source)
    with open_source(source, ".mlir", _EXPORT) as file:
        data = file.read()
    context = _context()
    return _program(where, _parse(where, data, context), context)


def _program(where: str, module: Any, context: Any) -> Program:
    functions = {op.name.value: op for op in module.body.operations if isinstance(op, func.FuncOp)}
    public = [f for f in functions.values() if "sym_visibility" not in f.attributes or f.visibility.value == "public"]
    main = functions.get("main") or (public[0] if len(public) == 1 else None)
    if main is None:
        raise InputError(where, f"has no function 'main', and {len(public)} that are public", _EXPORT)
    _bind_platform(main)
    return Program(module, context, functions, main, _signature(where, main, functions))


def inspect(source: Path) -> Signature:
    """The program's inputs and outputs. Raises as ``load``."""
    return load(source).signature


def has_dynamic_dimensions(program: Program) -> bool:
    """Whether a dimension of an input is dynamic."""
    return any(isinstance(size, str) for spec in program.signature.inputs for size in spec.shape)


def with_shapes(program: Program, shapes: Sequence[Sequence[int]]) -> Program:
    """A program with dynamic dimensions for inputs of some shapes; changes the given one.

    Raises:
        RuntimeError, ValueError: the program is not for these shapes.
    """
    main, block = program.main, program.main.regions[0].blocks[0]
    with program.context, ir.InsertionPoint.at_block_begin(block), ir.Location.unknown():
        kinds = []
        for argument, shape in zip(main.arguments, shapes, strict=True):
            dynamic = argument.type
            kinds.append(ir.RankedTensorType.get(list(shape), dynamic.element_type))
            argument.set_type(kinds[-1])
            if kinds[-1] != dynamic:
                of_any_size = stablehlo.ConvertOp(dynamic, argument)
                argument.replace_all_uses_except(of_any_size.result, of_any_size.operation)
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kinds, main.type.results))
    text = program.module.operation.get_asm(binary=True)
    refined = mlir.refine_polymorphic_shapes(
        mlir_module=text, enable_shape_assertions=True, validate_static_shapes=True, enable_shardy=True
    )
    return _program("", _parse("", refined, program.context), program.context)


def tensor_type(kind: Any) -> tuple[tuple[int | None, ...], str] | None:
    """Shape and dtype of a tensor of a supported type, with None for dynamic dimensions; None for anything else."""
    if not isinstance(kind, ir.RankedTensorType):
        return None
    dtype = DTYPES.get(str(kind.element_type))
    return (shape_of_type(kind), dtype) if dtype else None


def shape_of_type(kind: Any) -> tuple[int | None, ...]:
    """The shape of a tensor type, with None for dynamic dimensions."""
    return tuple(None if kind.is_dynamic_dim(axis) else size for axis, size in enumerate(kind.shape))


def complex_type(kind: Any) -> tuple[tuple[int | None, ...], str] | None:
    """Shape and dtype of the parts of a complex tensor, with None for dynamic dimensions; None for anything else."""
    if not isinstance(kind, ir.RankedTensorType):
        return None
    dtype = {"complex<f32>": "float32", "complex<f64>": "float64"}.get(str(kind.element_type))
    return (shape_of_type(kind), dtype) if dtype else None


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
        if not data.startswith(BYTECODE) and (program := _exported_program(where, data)) is not None:
            data = program
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


def _exported_program(where: str, data: bytes) -> bytes | None:
    """The program in what ``jax.export.Exported.serialize`` returns; None for any other data."""
    if b"StableHLO" not in data or BYTECODE not in data:
        return None
    try:
        return bytes(jax.export.deserialize(bytearray(data)).mlir_module_serialized)
    except ImportError:
        problem = "is what jax.export.Exported.serialize returns, and reading it needs flatbuffers"
        raise MachineError(where, problem, "install it with `pip install flatbuffers`") from None
    except (AttributeError, KeyError, IndexError, OverflowError, RuntimeError, TypeError, ValueError, struct.error):
        return None  # not a table of jax, or a damaged one


def _bind_platform(main: Any) -> None:
    """Fix the index of the platform, an argument of programs for several platforms, to the first one."""
    arguments = list(main.arguments)
    notes = list(main.attributes["arg_attrs"]) if "arg_attrs" in main.attributes else []
    if not notes or "jax.global_constant" not in notes[0] or notes[0]["jax.global_constant"].value != PLATFORM:
        return
    block, first = main.regions[0].blocks[0], arguments[0]
    with main.context, ir.InsertionPoint.at_block_begin(block), ir.Location.unknown():
        zero = stablehlo.ConstantOp(
            ir.DenseElementsAttr.get([ir.IntegerAttr.get(first.type.element_type, 0)], type=first.type)
        )
        first.replace_all_uses_with(zero.result)
        block.erase_argument(0)
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(main.type.inputs[1:], main.type.results))
        main.attributes["arg_attrs"] = ir.ArrayAttr.get(notes[1:])


def _signature(where: str, main: Any, functions: Mapping[str, Any]) -> Signature:
    results = main.type.results
    notes: Sequence[Any] = (
        list(main.attributes["res_attrs"]) if "res_attrs" in main.attributes else [None] * len(results)
    )
    if not len(results):
        raise InputError(where, "the function 'main' returns nothing", _EXPORT)
    names: set[str] = set()
    arguments, given = list(main.arguments), _input_names(functions, main)
    inputs = [_spec(where, name, argument.type, names) for name, argument in zip(given, arguments, strict=True)]
    shapes = declared_shapes(
        main, [shape_of_type(argument.type) for argument in arguments], [spec.relax_name for spec in inputs]
    )
    inputs = [spec.model_copy(update={"shape": shape}) for spec, shape in zip(inputs, shapes, strict=True)]
    outputs = tuple(
        _spec(where, _output_name(note, index, len(results)), kind, set())
        for index, (note, kind) in enumerate(zip(notes, results, strict=True))
    )
    if len({spec.name for spec in outputs}) < len(outputs):
        outputs = tuple(spec.model_copy(update={"name": f"output_{index}"}) for index, spec in enumerate(outputs))
    return Signature(inputs=tuple(inputs), outputs=outputs)


def _input_names(functions: Mapping[str, Any], main: Any) -> list[str]:
    """The arguments' names; with dynamic dimensions, jax names the arguments of the function that ``main`` calls."""
    named = list(main.arguments)
    for op in main.regions[0].blocks[0].operations if WRAPPED in functions else ():
        if op.operation.name == "func.call" and op.callee.value == WRAPPED:
            inner = dict(zip(op.operands, functions[WRAPPED].arguments, strict=True))
            named = [inner.get(argument, argument) for argument in named]
    return [_input_name(argument, index) for index, argument in enumerate(named)]


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
    shape = tuple(f"{relax_name}_d{axis}" if size is None else size for axis, size in enumerate(type_[0]))
    return TensorSpec(name=name, relax_name=relax_name, shape=shape, dtype=type_[1])


def _refusal(name: str, kind: Any) -> tuple[str, str]:
    if not isinstance(kind, ir.RankedTensorType):
        return f"'{name}' is not a tensor, but {kind}", "export a function of arrays only"
    if (width := half(kind)) is not None:
        return f"'{name}' is {width}", AS_FLOAT32
    element = str(kind.element_type)
    remedy = "export it with another type"
    if element.startswith("complex"):
        remedy = "take and return pairs of real numbers"
    return f"'{name}' has the type {element}, which is not read", remedy
