"""ONNX models in ONNX Runtime, or in the onnx package's reference implementation for missing kernels."""

from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError, EncodeError

from tvmake.artifact.signature import Signature
from tvmake.errors import InputError, MachineError
from tvmake.frontend.onnx.external import map_initializers
from tvmake.frontend.onnx.filled_inputs import filled_inputs
from tvmake.frontend.onnx.inputs import input_values
from tvmake.frontend.onnx.narrow_types import NARROW, from_storage_dtype, to_storage_dtype
from tvmake.frontend.onnx.source import has_external, load_data
from tvmake.frontend.options import ImportOptions
from tvmake.validate.reference.wide_sums import OPERATORS, write_out_wide_sums
from tvmake.validate.runtime import Runtime, library_version


def open_model(path: str, options: ImportOptions, signature: Signature) -> Runtime:
    """The model in ONNX Runtime, or in onnx.reference for missing kernels and for types that numpy lacks.

    Raises:
        InputError: neither ONNX Runtime nor the reference implementation can load the model.
        MachineError: onnxruntime is not installed.
    """
    try:
        import onnxruntime
        from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors
    except ImportError:
        raise MachineError(
            path, "running an ONNX model needs onnxruntime", "install it with `pip install onnxruntime`"
        ) from None
    session_options = onnxruntime.SessionOptions()
    session_options.intra_op_num_threads = 1
    session_options.inter_op_num_threads = 1
    session_options.use_deterministic_compute = True
    session_options.log_severity_level = 4  # errors are raised as exceptions
    # Constant folding and the like, but none of the fusions that replace a formula by an approximation.
    session_options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    model = _parse(path)
    narrow, fixed = (_narrow_types(model), input_values(model, options.inputs, path)) if model else ({}, {})
    filled = filled_inputs(model, options.inputs) if model else []
    operators = {node.op_type for node in model.graph.node} if model else set()
    is_mapped = model is not None and has_external(model) and not any(node.domain for node in model.graph.node)
    del model  # ONNX Runtime has its own copy of the weights
    try:
        source = path if operators.isdisjoint(OPERATORS) else _without_wide_sums(path)
        if not operators.isdisjoint(INTEGER_PRODUCTS):
            # Kernels for processors with AVX2 alone add pairs of products in 16 bits, which saturate. The option turns weights from
            # int8 to uint8, which have other kernels, in a pass of the extended level. Other passes of that level would fuse
            # dequantised arithmetic to operators in 8 bits.
            session_options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
            session_options.add_session_config_entry("session.x64quantprecision", "1")
            session_options.add_session_config_entry("session.disable_quant_qdq", "1")
        elif is_mapped:
            # ONNX Runtime uses external data where they are mapped, but would copy what it rearranges for its kernels.
            session_options.add_session_config_entry("session.disable_prepacking", "1")
        session = onnxruntime.InferenceSession(source, session_options, providers=["CPUExecutionProvider"])
    except ort_errors.NoSuchFile:
        raise InputError(path, "no such file") from None
    except (ort_errors.NotImplemented, ort_errors.Fail, ort_errors.InvalidGraph) as error:
        return _reference_implementation(path, options, signature, _first_line(error))
    except (ort_errors.InvalidProtobuf, ort_errors.InvalidArgument, ort_errors.RuntimeException) as error:
        raise InputError(path, f"ONNX Runtime cannot load it: {_first_line(error)}", "export the model again") from None

    value_names = {value.name for value in session.get_inputs()} | {
        value.name for value in session.get_overridable_initializers()
    }
    names = [spec.name for spec in signature.outputs]
    _check_names(path, signature, value_names, {value.name for value in session.get_outputs()})
    if narrow:
        return _reference_implementation(
            path, options, signature, f"its {', '.join(sorted(narrow))} cannot be handed over"
        )

    def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        try:
            made = {entry.name: entry.array(inputs) for entry in filled}
            return dict(zip(names, session.run(names, {**inputs, **fixed, **made}), strict=True))
        except (ort_errors.InvalidArgument, ort_errors.Fail, ort_errors.RuntimeException) as error:
            raise InputError(
                path, f"ONNX Runtime cannot run it: {_first_line(error)}", "check the inputs' shapes and ranges"
            ) from None

    return Runtime(library_version("onnxruntime"), run)


INTEGER_PRODUCTS = frozenset(
    {"QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger", "QGemm", "QAttention", "MatMulIntegerToFloat",
     "DynamicQuantizeMatMul", "DynamicQuantizeLSTM"}
)  # fmt: skip
"""Operators that ONNX Runtime computes in 8 bits."""


def _parse(path: str) -> onnx.ModelProto | None:
    """The model without external data; None if it cannot be read: ONNX Runtime says what is wrong with the file."""
    try:
        return onnx.load(path, load_external_data=False)
    except (OSError, DecodeError):
        return None


def _without_wide_sums(path: str) -> str | bytes:
    """The model; its bytes if operators whose sums would wrap were replaced, else its path."""
    try:
        model = onnx.load(path)
        return model.SerializeToString() if write_out_wide_sums(model) else path
    except (OSError, DecodeError, EncodeError):  # ONNX Runtime says what is wrong with the file, or takes large ones
        return path


def _reference_implementation(path: str, options: ImportOptions, signature: Signature, reason: str) -> Runtime:
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import RuntimeContextError, RuntimeImplementationError, RuntimeTypeError

    refusals = (RuntimeContextError, RuntimeImplementationError, RuntimeTypeError, NotImplementedError)
    model = onnx.load(path, load_external_data=False)
    load_data(model, Path(path).parent)
    narrow, fixed = _narrow_types(model), input_values(model, options.inputs, path)
    filled = filled_inputs(model, options.inputs)
    large = map_initializers(model)
    try:
        evaluator = ReferenceEvaluator(model)
    except refusals as error:
        raise _unrunnable(path, reason, error) from None
    names = [spec.name for spec in signature.outputs]
    _check_names(path, signature, set(evaluator.input_names), set(evaluator.output_names))

    def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        values = {name: from_storage_dtype(value, narrow.get(name, 0)) for name, value in inputs.items()}
        try:
            with np.errstate(all="ignore"):
                made = {entry.name: entry.array(values) for entry in filled}
                outputs = evaluator.run(names, {**values, **fixed, **large, **made})
                return {name: to_storage_dtype(np.asarray(value)) for name, value in zip(names, outputs, strict=True)}
        except (*refusals, ValueError, TypeError) as error:
            raise _unrunnable(path, reason, error) from None

    return Runtime(f"onnx.reference of {library_version('onnx')}", run)


def _narrow_types(model: onnx.ModelProto) -> dict[str, int]:
    """Element types of inputs and outputs that packages store as bytes, by name."""
    values = {value.name: value.type.tensor_type.elem_type for value in (*model.graph.input, *model.graph.output)}
    return {name: kind for name, kind in values.items() if kind in NARROW}


def _unrunnable(path: str, reason: str, error: Exception) -> InputError:
    return InputError(
        path,
        f"neither ONNX Runtime ({reason}) nor onnx.reference ({_first_line(error)}) can run it",
        "without a reference there is no validation; export the model with standard operators",
    )


def _check_names(path: str, signature: Signature, inputs: set[str], outputs: set[str]) -> None:
    for kind, specs, tensors in (("input", signature.inputs, inputs), ("output", signature.outputs, outputs)):
        for spec in specs:
            if spec.name not in tensors:
                raise InputError(
                    path,
                    f"has no {kind} {spec.name!r}",
                    f"its {kind}s are: {', '.join(sorted(tensors))}; import it again",
                )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
