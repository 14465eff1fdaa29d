"""Export TorchScript archives (``torch.jit.save``), with the weights as constants."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram

from tvmake.errors import InputError
from tvmake.frontend.options import EXPORT, ImportOptions
from tvmake.frontend.source_file import check_torchscript
from tvmake.frontend.torch.exporting.example_inputs import example_inputs
from tvmake.frontend.torch.exporting.export import exported_program
from tvmake.frontend.torch.exporting.named_inputs import NamedInputsModule
from tvmake.frontend.trust import check_trusted
from tvmake.process.limits import named

_DTYPES = (
    "give the shapes and dtypes that forward() expects; a dtype is `--set models.NAME.inputs.INPUT.dtype=int64`,"
    " in a config `inputs: {INPUT: {dtype: int64}}`"
)
_ORIGINAL = f"give the PyTorch module that it was made from: {EXPORT}"


def export(source: str, options: ImportOptions) -> ExportedProgram:
    """Load an archive, freeze it, and trace what it computes on inputs of the shapes in ``options.inputs``.

    Inputs have the names of ``forward``'s arguments. An archive stores no shapes and often no dtypes: an input is float32
    unless the archive looks up rows by it (int64) or ``options.inputs`` has another dtype. A name instead of a size makes a
    dimension dynamic, if the archive computes nothing from it.

    Raises:
        InputError: the file is another kind of archive, damaged, or not trusted; ``forward`` takes other values than
            tensors, stores values between calls, or branches on values; an input has no shape.
    """
    check_torchscript(Path(source))
    check_trusted(options)
    frozen = _load(source)
    _refuse_state(source, frozen)
    names = _tensor_arguments(source, frozen)
    module = NamedInputsModule(frozen, names, _call).eval()
    inputs, dynamic = example_inputs(source, module, (), _with_dtypes(options, frozen, names))
    with named(source), torch.jit.optimized_execution(False):
        _check_call(source, module, inputs)
        try:
            return exported_program(source, module, inputs, dynamic)
        except InputError as error:
            raise _explain(error) from error.__cause__


def _explain(error: InputError) -> InputError:
    """The error with the interpreter's reason, which its first line does not have."""
    text = str(error.__cause__ or "")
    if "GuardOnDataDependentSymNode" in text:
        code = re.search(r"\n(.*)\n *~+ *<--- HERE", text)
        problem = f"forward() branches on the values of its tensors{f': {code[1].strip()}' if code else ''}"
        return InputError(error.where, problem, f"compute both branches and select with torch.where; {_ORIGINAL}")
    if "Constraints violated" in text or "symbolic sizes" in text:
        problem = "its code computes with a size that is to be dynamic, and TorchScript makes it a number"
        return InputError(error.where, problem, f"give every size as a number; {_ORIGINAL}")
    return error


def _check_call(source: str, module: Any, inputs: Sequence[Tensor]) -> None:
    """Refuse inputs on which the code fails; the interpreter's reason follows the code."""
    try:
        with torch.no_grad():
            module(*inputs)
    except Exception as error:
        reasons = re.findall(r"^\w*(?:Error|Exception): *(\S.*)", str(error), re.MULTILINE)
        reason = reasons[-1] if reasons else str(error).partition("\n")[0]
        raise InputError(
            source, f"forward() fails on inputs of these shapes and dtypes: {reason[:300]}", _DTYPES
        ) from error


def _call(model: Any, values: list[Tensor]) -> Any:
    return model(*values)


def _load(source: str) -> Any:
    try:
        module = torch.jit.load(source, map_location="cpu").eval()
        return torch.jit.freeze(module)
    except Exception as error:
        line = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        problem = f"PyTorch {torch.__version__} cannot load it: {line[:200]}"
        raise InputError(source, problem, _ORIGINAL) from error


def _refuse_state(source: str, frozen: Any) -> None:
    graph = frozen.inlined_graph
    # Freezing makes constants of tensors that nothing writes to.
    reads = graph.findAllNodes("prim::GetAttr")
    written = [node for node in reads if node.output().type().kind() == "TensorType"]
    if stored := sorted({node.s("name") for node in [*graph.findAllNodes("prim::SetAttr"), *written]}):
        problem = f"its outputs depend on earlier calls: forward() stores {', '.join(stored[:3])} in the module"
        remedy = "make the stored values inputs and outputs of forward() before it is scripted, or give another file of this network, such as ONNX"
        raise InputError(source, problem, remedy)


def _tensor_arguments(source: str, frozen: Any) -> list[str]:
    """The names of ``forward``'s arguments up to the last tensor without a default value."""
    arguments = frozen.forward.schema.arguments[1:]
    required = [argument for argument in arguments if not argument.has_default_value()]
    for argument in required:
        if argument.type.kind() != "TensorType":
            problem = f"forward() takes '{argument.name}: {argument.type}', which is not a tensor"
            raise InputError(source, problem, f"wrap it in a module whose forward() takes tensors alone; {_ORIGINAL}")
    return [argument.name for argument in required]


def _with_dtypes(options: ImportOptions, frozen: Any, names: list[str]) -> ImportOptions:
    """The options, with the dtype of inputs that only look up rows."""
    graph = frozen.inlined_graph
    inputs = dict(options.inputs)
    for name, value in zip(names, list(graph.inputs())[1:], strict=False):
        is_index = any(use.user.kind() == "aten::embedding" and use.offset == 1 for use in value.uses())
        if is_index and name in inputs and inputs[name].dtype is None:
            inputs[name] = inputs[name].model_copy(update={"dtype": "int64"})
    return options.model_copy(update={"inputs": inputs})
