"""ONNX models in ONNX Runtime, with default options for the CPU except the number of threads."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx

from tvmake.artifact.signature import Signature
from tvmake.benchmark.baseline.prepared import Prepared
from tvmake.errors import InputError, MachineError
from tvmake.frontend.onnx.filled_inputs import filled_inputs
from tvmake.frontend.onnx.inputs import input_values
from tvmake.frontend.options import ImportOptions
from tvmake.validate.runtime import library_version


def prepare(
    source: str, options: ImportOptions, signature: Signature, inputs: dict[str, np.ndarray], threads: int
) -> Prepared:
    """The model with its inputs bound.

    Raises:
        InputError: ONNX Runtime cannot load the model.
        MachineError: onnxruntime is not installed.
    """
    try:
        import onnxruntime
    except ImportError:
        raise MachineError(source, "onnxruntime is not installed", "`pip install onnxruntime`") from None
    session_options = onnxruntime.SessionOptions()
    session_options.intra_op_num_threads = threads
    session_options.inter_op_num_threads = 1
    session_options.log_severity_level = 4  # errors are raised as exceptions
    session_options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    try:
        session = onnxruntime.InferenceSession(source, session_options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001  # its exceptions have no common base
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(source, f"ONNX Runtime cannot load it: {line}") from None
    binding = session.io_binding()
    model = onnx.load(source, load_external_data=False)
    fixed = input_values(model, options.inputs, source)
    filled = filled_inputs(model, options.inputs)
    made = {entry.name: entry.array(inputs) for entry in filled}
    for name, value in {**inputs, **fixed, **made}.items():
        binding.bind_cpu_input(name, np.asarray(value, order="C"))
    for spec in signature.outputs:
        binding.bind_output(spec.name)
    names = [spec.name for spec in signature.outputs]

    def step(given: Mapping[str, Any]) -> dict[str, Any]:
        made = {entry.name: entry.array(given) for entry in filled}
        return dict(zip(names, session.run(names, {**given, **fixed, **made}), strict=True))

    return Prepared(library_version("onnxruntime"), lambda: session.run_with_iobinding(binding), step)
