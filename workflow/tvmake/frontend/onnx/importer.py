"""Import ONNX models: check, prepare, convert with TVM's importer, detach parameters."""

import contextlib
import io
import re
import textwrap
import warnings
from copy import copy
from pathlib import Path
from typing import Any

import onnx
import tvm

from tvmake.artifact.signature import Signature, TensorSpec, unnamed_shape
from tvmake.artifact.weights.tensors import as_tensor
from tvmake.errors import InputError
from tvmake.frontend.imported import ImportedModel
from tvmake.frontend.onnx.builder import PaddingBuilder
from tvmake.frontend.onnx.converters import CONVERTERS
from tvmake.frontend.onnx.dynamic.equalize_operands import equalize_operands
from tvmake.frontend.onnx.dynamic.shape_values import ShapeValues
from tvmake.frontend.onnx.dynamic.shaped_operators import evaluate
from tvmake.frontend.onnx.external import array_of
from tvmake.frontend.onnx.fixed_operands import value_remedy
from tvmake.frontend.onnx.graph import all_nodes, fix_shapes, opset_of, sources
from tvmake.frontend.onnx.inputs import (
    bind_inputs,
    dimension_names,
    index_bounds,
    inspect,
    relax_name,
    rename_values,
    strip_initializers,
    value_ranges,
)
from tvmake.frontend.onnx.loops.functions import convert_loop
from tvmake.frontend.onnx.prepare import inline_small, prepare
from tvmake.frontend.onnx.rewrites.unstack_reductions import unstack_reductions
from tvmake.frontend.onnx.source import load
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.relax_fixes import correct_operators, drop_unused_params, lift_constants, with_main
from tvmake.frontend.size_conditions import settle_sizes
from tvmake.ir.bounds import bounds_of
from tvmake.ir.size_checks import stated_types
from tvmake.ir.size_expressions import size_text

from tvm import relax, tirx  # isort: skip
from tvm.relax.frontend.onnx.onnx_frontend import ONNXGraphImporter  # isort: skip

__all__ = ["inspect", "read"]


def read(source: Path, options: ImportOptions) -> ImportedModel:
    """Import an ONNX file as Relax.

    Inputs keep the model's names, shapes and dtypes, but ``options.inputs`` may fix or name dynamic dimensions. Weights
    become trailing parameters.

    Raises:
        InputError: the file is not a usable model; an input in the config contradicts it; an operator cannot be imported,
            or TVM is known to compute it wrongly.
    """
    where = str(source)
    model = load(source, options.files)
    stored_opset = opset_of(model)
    stored_ir = int(model.ir_version)
    producer = f"{model.producer_name} {model.producer_version}".strip()
    strip_initializers(model)
    original_outputs = [value.name for value in model.graph.output]
    bind_inputs(model, options.inputs, where)
    original_inputs = [value.name for value in model.graph.input]
    ranges, indices = value_ranges(model), index_bounds(model)
    prepared = prepare(model, where, options.opset)
    del model  # the prepared one holds the weights now
    inline_small(prepared.model)
    rename_values(prepared.model)
    module, params = tidy(*convert(prepared.model, where), where)

    parameters = module["main"].params
    inputs = []
    for name, var in zip(original_inputs, parameters, strict=False):
        entry = options.inputs.get(name)
        bounds = entry.range if entry and entry.range else ranges.get(name)
        inputs.append(_spec(name, var.name, var.ty, bounds).model_copy(update={"indices": indices.get(name)}))
    fields = stated_types(module["main"])
    outputs = [_spec(name, relax_name(name), field) for name, field in zip(original_outputs, fields, strict=True)]
    notes: dict[str, Any] = {
        "format": "onnx",
        "opset": stored_opset,
        "imported_opset": opset_of(prepared.model),
        "ir_version": stored_ir,
        "producer": producer,
        "preparation": [f"{name} {count}×" for name, count in prepared.changes.items()],
    }
    signature = Signature(inputs=tuple(inputs), outputs=tuple(outputs), bounds=bounds_of(module))
    return ImportedModel(module, params, signature, notes)


def _spec(name: str, relax: str, kind: Any, bounds: tuple[float, float] | None = None) -> TensorSpec:
    if kind.shape is None:
        shape: tuple[int | str, ...] = unnamed_shape(relax, kind.ndim)
    else:
        shape = tuple(_dim(dim) for dim in kind.shape.values)
    return TensorSpec(name=name, relax_name=relax, shape=shape, dtype=str(kind.dtype), range=bounds)


def _dim(dim: Any) -> int | str:
    if isinstance(dim, tvm.tirx.IntImm):
        return int(dim)
    return size_text(dim)


DYNAMIC_SLICE = tvm.ir.Op.get("relax.dynamic_strided_slice")
"""TVM computes its shape in a function that packages do not contain."""

FIXED_RANKS = "Export a model with fixed ranks, such as with axes for Squeeze"


class _Importer(ONNXGraphImporter):
    """TVM's importer with the converters of this package; it records the current node for error messages."""

    node = "the graph"
    where = ""
    extents: ShapeValues
    remedy: str | None = None
    """The remedy for operators whose axes are inputs."""
    fix_shapes: str
    """The setting that gives dynamic inputs fixed shapes."""
    branches: dict[str, tuple[str, bool]]
    """By a branch's name, the condition, and the condition's value that takes the branch."""

    def _check_for_unsupported_ops(self, graph: onnx.GraphProto) -> None:
        """Do nothing: `refuse` has checked the operators, including those converted here."""

    def _parse_array(self, tensor: onnx.TensorProto) -> "tvm.runtime.Tensor":
        """The values of a tensor, without a copy of those that are in a file."""
        return as_tensor(array_of(tensor).reshape(tuple(tensor.dims)))

    def _convert_operator(self, op_name: str, inputs: Any, attrs: dict[str, Any], opset: int) -> Any:
        self.node = self.bb.operator = f"{op_name} {attrs['tvm_custom']['name']!r}"
        if op_name == "Loop":
            results = convert_loop(self.extents, inputs, attrs["body"], self._import_body, self.where)
            return results[0] if len(results) == 1 else relax.Tuple(results)
        inputs = equalize_operands(op_name, self._with_sizes(inputs), self.extents)
        result = evaluate(self.extents, op_name, inputs, attrs)
        if result is None and op_name in CONVERTERS:
            result = CONVERTERS[op_name](self.extents, inputs, attrs)
        if result is not None:
            return self.bb.normalize(result)
        result = self.extents.to_tensor(super()._convert_operator(op_name, inputs, attrs, opset))
        if op_name == "Cast":
            result = self.extents.note_cast(inputs[0], result)
        if op_name == "NonMaxSuppression":
            result = self._name_rows(result)
        if isinstance(result, relax.Tuple) and attrs["tvm_custom"]["num_outputs"] == 1:
            result = result.fields[0]  # in a branch, TVM's importer would take the tuple for the value
        if isinstance(result, relax.Call):
            result = self.bb.normalize(result)
            if result.op == DYNAMIC_SLICE:
                raise InputError(
                    self.where,
                    f"the axes, the strides or the number of the bounds of {self.node} depend on the data",
                    self.remedy or "Export the model with constant axes and strides.",
                )
            if isinstance(result.ty, relax.TensorType) and result.ty.ndim < 0:
                raise InputError(
                    self.where,
                    f"the rank of the output of {self.node} depends on the sizes of its inputs",
                    f"{FIXED_RANKS}, or fix the sizes: {self.fix_shapes}.",
                )
        return result

    def _with_sizes(self, inputs: Any) -> Any:
        """The operands; results of branches that differ in shape get dimensions for their sizes."""
        changed = copy(inputs)  # keeps TVM's list type
        for index, value in enumerate(inputs):
            if not isinstance(value, relax.Var) or not isinstance(value.ty, relax.TensorType) or value.ty.shape:
                continue
            source = self.bb.lookup_binding(value)
            if isinstance(source, relax.TupleGetItem):
                source = self.bb.lookup_binding(source.tuple_value)
            if not isinstance(source, relax.If):
                continue
            if value.ty.ndim < 0:
                problem = f"the branches of an If give {self.node} tensors of different ranks"
                raise InputError(self.where, problem, f"{FIXED_RANKS}.")
            changed[index] = self.extents.with_new_sizes(value)
        return changed

    def _convert_subgraph(self, bb: Any, graph: onnx.GraphProto) -> Any:
        """The result of a branch, whose operators are computed whether it is taken or not."""
        condition, is_then = self.branches[graph.name]
        with self.extents.branch(self._nodes[condition], is_then):
            return super()._convert_subgraph(bb, graph)

    def _import_body(self, graph: onnx.GraphProto) -> "tvm.IRModule":
        """A loop's body as a module; its sizes are checked in each iteration."""
        importer = _importer(graph, self.where, keep_params_in_input=False)
        importer.bb.dimensions = ()
        return importer.from_onnx(graph, self.opset)

    def _name_rows(self, boxes: Any) -> Any:
        """Selected boxes with a dimension for their number; the type that TVM's operator declares has the largest number.

        A cast of the operator's results together removes that number, with which passes would replace the dimension: they
        merge two casts of one tensor.
        """
        count = tirx.Var(self.bb.get_unique_name("selected"), "int64")
        item = self.bb.lookup_binding(boxes) if isinstance(boxes, relax.Var) else boxes
        results = item.tuple_value
        kinds = [relax.TensorType(dtype="int64", ndim=2), *list(results.ty.fields)[1:]]
        of_any_size = self.bb.match_cast(results, relax.TupleType(kinds))
        rows = self.bb.emit(relax.TupleGetItem(of_any_size, 0))
        return self.bb.match_cast(rows, relax.TensorType((count, 3), "int64"))


def convert(model: onnx.ModelProto, where: str) -> tuple["tvm.IRModule", dict[str, Any]]:
    """Run TVM's importer on a prepared model; returns the module and its parameters in argument order.

    Raises:
        InputError: the importer failed; the message names the node.
    """
    importer = _importer(model.graph, where, keep_params_in_input=True)
    importer.bb.dimensions = dimension_names(model)
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = importer.from_onnx(model.graph, opset_of(model))
    except InputError:
        raise
    except Exception as error:
        # The importer raises errors of any type, from AssertionError to TVM's own; all mean the same here.
        raise InputError(
            where,
            f"{importer.node} cannot be imported: {_shorten(str(error)) or type(error).__name__}",
            _remedy(model),
        ) from error
    if any(node.op_type in ("If", "Loop") for node in all_nodes(model.graph)):
        # TVM's importer leaves networks with branches outside of dataflow blocks, which most passes need.
        module = relax.transform.ConvertToDataflow()(module)
    module = settle_sizes(module, importer.bb.equal_sizes, where)
    count = int(module["main"].attrs["num_input"])
    names = [var.name for var in module["main"].params[count:]]
    module, detached = relax.frontend.detach_params(module)
    return module, dict(zip(names, detached.get("main", []), strict=True))


def _importer(graph: onnx.GraphProto, where: str, keep_params_in_input: bool) -> _Importer:
    """An importer for a graph. TVM's reads a dimension of size 0 as "not set"; such shapes are passed explicitly."""
    empty = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in graph.input
        if any(dim.HasField("dim_value") and dim.dim_value == 0 for dim in value.type.tensor_type.shape.dim)
    }
    importer = _Importer(empty, None, keep_params_in_input=keep_params_in_input, sanitize=False)
    importer.bb = PaddingBuilder()
    importer.extents = ShapeValues(importer.bb)
    importer.where = where
    importer.remedy, importer.fix_shapes = value_remedy(graph), fix_shapes(graph)
    importer.branches = name_branches(graph)
    return importer


def name_branches(graph: onnx.GraphProto) -> dict[str, tuple[str, bool]]:
    """Give every branch a name of its own; returns each with its condition, and the condition's value that takes it."""
    branches: dict[str, tuple[str, bool]] = {}
    for node in all_nodes(graph):
        for attribute in node.attribute if node.op_type == "If" else ():
            attribute.g.name = f"branch_{len(branches)}"
            branches[attribute.g.name] = node.input[0], attribute.name == "then_branch"
    return branches


def _remedy(model: onnx.ModelProto) -> str:
    """The remedy for an operator that the importer lacks: fix the inputs that select a branch or give axes, if there are any."""
    inputs = {value.name for value in model.graph.input}
    selecting = [
        name for node in model.graph.node if node.op_type == "If" for name in sources(node.input[0], model.graph)
    ]
    if (name := next(filter(inputs.__contains__, selecting), None)) is not None:
        return f"Fix the input that selects the branch: `inputs: {{{name}: {{value: VALUE}}}}`."
    if (remedy := value_remedy(model.graph)) is not None:
        return remedy
    return "Export the model another way, or give dynamic inputs a fixed shape (docs/guides/import-onnx.md)."


def _shorten(text: str) -> str:
    """TVM's message with plain numbers and shapes, shortened to 300 characters."""
    for written, plain in (
        (
            r'metadata\["[^"]*"\]\[\d+\]\s*# Metadata omitted\. Use show_meta=True in script\(\) method to show it\.',
            "a constant",
        ),
        (r"T\.int64\((-?\d+)\)", r"\1"),
        (r"R\.shape\((\[[^]]*\])\)", r"\1"),
    ):
        text = re.sub(written, plain, text)
    return textwrap.shorten(text, 300, placeholder=" …")


def tidy(module: "tvm.IRModule", params: dict[str, Any], where: str) -> tuple["tvm.IRModule", dict[str, Any]]:
    """Correct operators, return tensors only, and turn large constants into parameters; reduce several tensors pairwise."""
    module = _return_tensors(unstack_reductions(correct_operators(module)), where)
    module, params = drop_unused_params(module, params)
    module, lifted = lift_constants(module)
    return module, {**params, **lifted}


def _return_tensors(module: "tvm.IRModule", where: str) -> "tvm.IRModule":
    """Turn shapes that ``main`` returns into int64 tensors; refuse other non-tensor outputs."""
    main = module["main"]
    fields = list(main.ret_ty.fields) if isinstance(main.ret_ty, relax.TupleType) else [main.ret_ty]
    if any(isinstance(field, relax.TensorType) and field.ndim < 0 for field in fields):
        raise InputError(where, "an output's rank is known only at run time", f"{FIXED_RANKS}.")
    if all(isinstance(field, relax.TensorType) for field in fields):
        return module
    if not all(isinstance(field, relax.TensorType | relax.ShapeType) for field in fields):
        raise InputError(where, "an output is a sequence or an optional, not a tensor", "Export a tensor-only model.")
    result, bindings, outputs = main.body.body, [], []
    is_tuple = isinstance(main.ret_ty, relax.TupleType)
    for index, field in enumerate(fields):
        value = relax.TupleGetItem(result, index) if is_tuple else result
        if isinstance(field, relax.ShapeType):
            shape = relax.Var(f"shape_{index}", field)
            bindings.append(relax.VarBinding(shape, value))
            value, field = relax.op.shape_to_tensor(shape), relax.TensorType([field.ndim], "int64")
        outputs.append(relax.Var(f"output_{index}", field))
        bindings.append(relax.VarBinding(outputs[-1], value))
    blocks = [*main.body.blocks, relax.BindingBlock(bindings)]
    body = relax.SeqExpr(blocks, relax.Tuple(outputs) if is_tuple else outputs[0])
    types = [output.ty for output in outputs]
    kind = relax.TupleType(types) if is_tuple else types[0]
    return relax.transform.Normalize()(with_main(module, list(main.params), body, kind))
