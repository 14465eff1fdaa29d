"""Every value that the source model computes in its own framework, with the operator that computes it."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from tvmake.artifact.signature import Signature
from tvmake.debug.departure import Value
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions

Tensors = Mapping[str, np.ndarray]


def source_values(source: str, options: ImportOptions, signature: Signature, inputs: Tensors) -> list[Value]:
    """The values in the order that they are computed.

    Args:
        source: ``options.source`` as a path from here.
        inputs: by their names in the source.

    Raises:
        InputError: the model cannot be loaded, or its framework does not give its values away.
    """
    reader = READERS.get(options.source_format() or "")
    if reader is None:
        raise InputError(source, "values inside of models of this format cannot be read")
    return list(reader(source, options, signature, inputs))


def _onnx(source: str, options: ImportOptions, _signature: Signature, inputs: Tensors) -> Iterator[Value]:
    """By ONNX Runtime without any rewriting, where each node's results are outputs."""
    import onnx
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors

    from tvmake.frontend.onnx.filled_inputs import filled_inputs
    from tvmake.frontend.onnx.inputs import input_values

    refusals = (
        ort_errors.Fail,
        ort_errors.InvalidArgument,
        ort_errors.InvalidGraph,
        ort_errors.NotImplemented,
        ort_errors.RuntimeException,
        ValueError,  # a model over 2 GB has no bytes
    )
    model = onnx.load(source)
    nodes = [node for node in model.graph.node if node.output]
    known = {value.name for value in model.graph.output}
    names = [name for node in nodes for name in node.output if name]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in known)
    session_options = onnxruntime.SessionOptions()
    session_options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session_options.log_severity_level = 4
    made = {entry.name: entry.array(inputs) for entry in filled_inputs(model, options.inputs)}
    values = {**inputs, **input_values(model, options.inputs, source), **made}
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), session_options, ["CPUExecutionProvider"])
        arrays = dict(zip(names, session.run(names, values), strict=True))
    except refusals as error:
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(source, f"ONNX Runtime does not give its values away: {line}") from None
    for node in nodes:
        for name in node.output:
            if name and isinstance(arrays[name], np.ndarray):
                label = f"{node.op_type} '{node.name}'" if node.name else node.op_type
                yield Value(name, label, tuple(node.input), arrays[name])


def _torch(source: str, options: ImportOptions, signature: Signature, inputs: Tensors) -> Iterator[Value]:
    """By torch, which interprets the exported program node by node."""
    import torch
    from torch.utils import _pytree as pytree

    from tvmake.frontend.torch.source import load_program
    from tvmake.validate.reference.torch_program import to_torch

    program = load_program(source, options)
    values: list[Value] = []

    class Interpreter(torch.fx.Interpreter):
        def run_node(self, node: Any) -> Any:
            result = super().run_node(node)
            if isinstance(result, torch.Tensor) and node.op in ("call_function", "call_method", "call_module"):
                array = result.detach().cpu()
                array = array.float() if array.dtype == torch.bfloat16 else array
                before = tuple(str(source_node.name) for source_node in node.all_input_nodes)
                values.append(Value(str(node.name), _target(node), before, array.contiguous().numpy().copy()))
            return result

    flat = [to_torch(inputs[spec.name]) for spec in signature.inputs]
    args, kwargs = pytree.tree_unflatten(flat, program.call_spec.in_spec)
    with torch.no_grad():
        module = program.module()
        Interpreter(module).run(*pytree.tree_leaves((args, kwargs)))
    yield from values


def _target(node: Any) -> str:
    """``aten.conv2d.default 'conv1'``, with the module of the network that it is in where the export has noted it."""
    stack = node.meta.get("nn_module_stack") or {}
    path = next((str(path) for path, _ in reversed(list(stack.values())) if path), "")
    operator = str(node.target).removeprefix("torch.ops.")
    return f"{operator} in '{path}'" if path else operator


def _tflite(source: str, _options: ImportOptions, signature: Signature, inputs: Tensors) -> Iterator[Value]:
    """By LiteRT, which keeps all tensors; they are written in the order that operators compute them."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(
        model_path=source,
        num_threads=1,
        experimental_preserve_all_tensors=True,
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    indices = {entry["name"]: entry["index"] for entry in interpreter.get_input_details()}
    for spec in signature.inputs:
        interpreter.resize_tensor_input(indices[spec.name], list(inputs[spec.name].shape))
    interpreter.allocate_tensors()
    for spec in signature.inputs:
        interpreter.set_tensor(indices[spec.name], inputs[spec.name])
    interpreter.invoke()
    names = {entry["index"]: str(entry["name"]) for entry in interpreter.get_tensor_details()}
    for operator, before, after in _tflite_operators(source):
        for index in after:
            yield Value(
                names[index], operator, tuple(names.get(tensor, "") for tensor in before), interpreter.get_tensor(index)
            )


def _tflite_operators(source: str) -> Iterator[tuple[str, list[int], list[int]]]:
    """Each operator's name, and the indices of the tensors that it reads and writes."""
    from pathlib import Path

    import tflite

    model = tflite.Model.GetRootAs(Path(source).read_bytes())
    graph = model.Subgraphs(0)
    kinds = {code: name for name, code in vars(tflite.BuiltinOperator).items() if isinstance(code, int)}
    for number in range(graph.OperatorsLength()):
        operator = graph.Operators(number)
        code = model.OperatorCodes(operator.OpcodeIndex())
        kind = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        before = [operator.Inputs(position) for position in range(operator.InputsLength())]
        after = [operator.Outputs(position) for position in range(operator.OutputsLength())]
        yield kinds.get(kind, str(kind)), before, after


READERS: Mapping[str, Callable[[str, ImportOptions, Signature, Tensors], Iterator[Value]]] = {
    "onnx": _onnx,
    "pt2": _torch,
    "keras": _torch,
    "torchscript": _torch,
    "factory": _torch,
    "zoo": _torch,
    "tflite": _tflite,
}
"""By the source's format."""
