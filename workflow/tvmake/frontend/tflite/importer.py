"""Import TFLite: convert a checked file to Relax through TVM's importer."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tflite
import tvm

from tvmake.artifact.signature import Signature
from tvmake.errors import InputError
from tvmake.frontend.configured_inputs import check_inputs, with_ranges
from tvmake.frontend.imported import ImportedModel
from tvmake.frontend.options import ImportOptions, InputSpec
from tvmake.frontend.relax_fixes import correct_operators, lift_constants, with_main
from tvmake.frontend.states import begin_with
from tvmake.frontend.tflite.control_flow import MAX_STEPS, DataDependentLoopError
from tvmake.frontend.tflite.operators import NOT_BUILT, Converter
from tvmake.frontend.tflite.source import TFLiteModel, inspect, load, resizable_axes
from tvmake.frontend.tflite.variables import Variable

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip
from tvm.relax.frontend.tflite import from_tflite  # isort: skip
from tvm.relax.frontend.tflite.tflite_frontend import ExprTable, get_tensor_name  # isort: skip

__all__ = ["inspect", "read"]


def read(source: Path, options: ImportOptions) -> ImportedModel:
    """Import a TFLite model, float or quantised; constants become trailing arguments of ``main``.

    A dimension that is dynamic in the file (LiteRT's resizable inputs; usually the batch) is 1 unless ``options.inputs``
    sets another size.

    Raises:
        InputError: the file is unusable, or has operators that TVM's importer lacks (all of them are listed);
            ``options.inputs`` does not fit.
    """
    where = str(source)
    model = load(source)
    _refuse_unsupported(where, model)
    shapes = _shapes(where, model, options.inputs)
    names = [get_tensor_name(model.graph, model.graph.Inputs(index)) for index in range(model.graph.InputsLength())]
    variables: dict[Any, Variable] = {}

    def convert(*arguments: Any) -> Converter:
        converter = Converter(*arguments)
        converter.conversion_state["variables"] = converter.variables = variables
        return converter

    try:
        module = from_tflite(model.root, shape_dict=dict(zip(names, shapes, strict=True)), op_converter=convert)
    except DataDependentLoopError:
        problem = f"has a loop (WHILE) whose number of steps depends on data, or is above {MAX_STEPS}"
        raise InputError(where, problem, "convert the model with loops unrolled (Keras: unroll=True)") from None
    except Exception as error:
        # The importer raises errors of many types: OpNotImplemented, AssertionError, ValueError …
        if "dynamic range quantization" in str(error):
            problem = (
                "has quantised weights but float activations (dynamic-range quantisation), which TVM cannot import"
            )
            raise InputError(
                where, problem, "convert it without optimizations, or with a representative dataset"
            ) from error
        line = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        problem = f"TVM's TFLite importer fails: {type(error).__name__}: {line[:300]}"
        raise InputError(where, problem, "convert the model to ONNX (python -m tf2onnx.convert --tflite …)") from error
    module = _with_argument_names(module, [spec.relax_name for spec in model.signature.inputs])
    states = list(variables.values())
    module, params = lift_constants(correct_operators(_with_states(module, states)))
    known = model.signature.model_copy(update={"states": tuple(variable.spec for variable in states)})
    signature = _with_imported_shapes(where, module, known)
    _check_sizes(where, model, signature)
    imported = ImportedModel(
        module=module,
        params=params,
        signature=with_ranges(signature, options.inputs),
        notes={"format": "tflite", "producer": model.description, "operators": sorted(model.operators)},
        framework_rounds=_rounds_inputs(model),
    )
    return begin_with(imported, {str(variable.argument.name): variable.initial for variable in states})


def _with_states(module: "tvm.IRModule", states: Sequence[Variable]) -> "tvm.IRModule":
    """``main`` with the values of states behind its inputs, and their next values behind its outputs."""
    if not states:
        return module
    main = module["main"]
    *blocks, last = main.body.blocks
    returned = main.body.body
    is_tuple = isinstance(main.ret_ty, relax.TupleType)
    count = len(main.ret_ty.fields) if is_tuple else 1
    outputs = [relax.TupleGetItem(returned, index) for index in range(count)] if is_tuple else [returned]
    types = [*(main.ret_ty.fields if is_tuple else [main.ret_ty]), *(state.argument.ty for state in states)]
    results = relax.Var("results", relax.TupleType(types))
    both = [*last.bindings, relax.VarBinding(results, relax.Tuple([*outputs, *(state.value for state in states)]))]
    body = relax.SeqExpr([*blocks, type(last)(both)], results)
    parameters = [*main.params, *(state.argument for state in states)]
    return relax.transform.Normalize()(with_main(module, parameters, body, results.ty))


def _rounds_inputs(model: TFLiteModel) -> bool:
    """Whether LiteRT, unlike the import, rounds inputs of operators with 8-bit weights (dynamic range)."""
    graph, code = model.graph, tflite.BuiltinOperator
    narrow = (tflite.TensorType.INT8, tflite.TensorType.INT4)
    for number in range(graph.OperatorsLength()):
        operator = graph.Operators(number)
        opcode = model.root.OperatorCodes(operator.OpcodeIndex())
        if max(opcode.BuiltinCode(), opcode.DeprecatedBuiltinCode()) in (
            code.DEQUANTIZE,
            code.GATHER,
            code.EMBEDDING_LOOKUP,
        ):
            continue
        inputs = [graph.Tensors(index) for i in range(operator.InputsLength()) if (index := operator.Inputs(i)) >= 0]
        outputs = [graph.Tensors(operator.Outputs(i)) for i in range(operator.OutputsLength())]
        if any(tensor.Type() == tflite.TensorType.FLOAT32 for tensor in outputs) and any(
            tensor.Type() in narrow for tensor in inputs
        ):
            return True
    return False


def _refuse_unsupported(where: str, model: TFLiteModel) -> None:
    known = Converter(model.root, model.graph, ExprTable(), relax.BlockBuilder()).convert_map
    # The importer supports this custom operator under its own name.
    missing = {
        name: count
        for name, count in model.operators.items()
        if (name not in known or name in NOT_BUILT) and name != "CUSTOM:TFLite_Detection_PostProcess"
    }
    if missing:
        listing = ", ".join(f"{name} ({count}×)" for name, count in sorted(missing.items()))
        plural = "operator has" if len(missing) == 1 else "operators have"
        problem = f"{len(missing)} {plural} no importer in TVM {tvm.__version__}: {listing}"
        raise InputError(where, problem, "convert the model to ONNX instead, or leave those operators out")


def _shapes(where: str, model: TFLiteModel, entries: dict[str, InputSpec]) -> list[tuple[int, ...]]:
    """The shapes with which the inputs are imported."""
    resized: list[tuple[int, ...]] = []
    checked = dict(entries)
    for index, spec in enumerate(model.signature.inputs):
        entry = entries.get(spec.name)
        shape: list[Any] = list(spec.shape)
        if entry is not None and entry.shape is not None and len(entry.shape) == len(shape):
            for axis in resizable_axes(model, index):
                if isinstance(entry.shape[axis], str):
                    problem = f"axis {axis} of input '{spec.name}' cannot stay dynamic ('{entry.shape[axis]}')"
                    raise InputError(where, problem, "give its extent, or convert the model to ONNX instead")
                shape[axis] = entry.shape[axis]
            declared = [extent if shape[a] == entry.shape[a] else entry.shape[a] for a, extent in enumerate(spec.shape)]
            checked[spec.name] = entry.model_copy(update={"shape": declared})
        resized.append(tuple(shape))
    check_inputs(where, model.signature, checked)
    return resized


def _with_imported_shapes(where: str, module: "tvm.IRModule", signature: Signature) -> Signature:
    """The file's signature with the imported module's shapes."""
    main = module["main"]
    returned = main.ret_ty
    types = list(returned.fields) if isinstance(returned, relax.TupleType) else [returned]
    specs = [*signature.inputs, *signature.outputs]
    imported_types = [*(var.ty for var in main.params[: len(signature.inputs)]), *types[: len(signature.outputs)]]
    imported = []
    for spec, ty in zip(specs, imported_types, strict=True):
        extents = list(ty.shape) if ty.shape is not None else []
        if len(extents) != len(spec.shape) or not all(isinstance(extent, tvm.tirx.IntImm) for extent in extents):
            raise InputError(
                where, f"the shape of '{spec.name}' depends on the data ({ty})", "convert it to ONNX instead"
            )
        if str(ty.dtype) != spec.dtype:
            raise InputError(where, f"TVM imports '{spec.name}' as {ty.dtype}, the file says {spec.dtype}")
        imported.append(spec.model_copy(update={"shape": tuple(int(extent) for extent in extents)}))
    count = len(signature.inputs)
    return signature.model_copy(update={"inputs": tuple(imported[:count]), "outputs": tuple(imported[count:])})


def _check_sizes(where: str, model: TFLiteModel, signature: Signature) -> None:
    """Refuse sizes of resizable inputs that are too small for an output, as a signal of one sample may be."""
    output = next((spec for spec in signature.outputs if any(int(extent) < 1 for extent in spec.shape)), None)
    resizable = [spec for index, spec in enumerate(signature.inputs) if resizable_axes(model, index)]
    if output is not None and resizable:
        first = resizable[0]
        problem = (
            f"computes nothing for input '{first.name}' of the shape {list(first.shape)}: its size is not in the file"
        )
        raise InputError(where, problem, f"give it a larger one: `inputs: {{{first.name}: {{shape: […]}}}}`")


@mutator
class _ArgumentRenamer(PyExprMutator):
    def __init__(self, renamed: "dict[relax.Var, relax.Var]"):
        super().__init__()
        self.renamed = renamed

    def visit_var_(self, op: relax.Var) -> relax.Expr:
        return self.renamed.get(op, op)


def _with_argument_names(module: "tvm.IRModule", names: list[str]) -> "tvm.IRModule":
    """``main`` with other argument names, and without the importer's ``params``, for which there are no arguments."""
    main = module["main"]
    fresh = [relax.Var(name, var.ty) for name, var in zip(names, main.params, strict=True)]
    body = _ArgumentRenamer(dict(zip(main.params, fresh, strict=True))).visit_expr(main.body)
    changed = tvm.IRModule(module.functions, attrs=module.attrs)
    changed["main"] = relax.Function(fresh, body, attrs=main.attrs).without_attr("params")
    return changed
