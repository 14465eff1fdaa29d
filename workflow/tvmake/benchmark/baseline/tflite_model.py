"""TFLite models in LiteRT's interpreter, with the XNNPACK delegate that it uses by default."""

import numpy as np

from tvmake.artifact.signature import Signature
from tvmake.benchmark.baseline.prepared import Prepared
from tvmake.errors import InputError, MachineError
from tvmake.frontend.options import ImportOptions
from tvmake.validate.reference.tflite_model import by_name
from tvmake.validate.runtime import library_version


def prepare(
    source: str, _options: ImportOptions, signature: Signature, inputs: dict[str, np.ndarray], threads: int
) -> Prepared:
    """The interpreter with its inputs set.

    Raises:
        InputError: LiteRT cannot load the model.
        MachineError: LiteRT is not installed.
    """
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        raise MachineError(source, "LiteRT is not installed", "`pip install tvmake[tflite]`") from None
    try:
        interpreter = Interpreter(model_path=source, num_threads=threads)
        details = by_name(source, "input", interpreter.get_input_details(), [spec.name for spec in signature.inputs])
        for name, entry in details.items():
            interpreter.resize_tensor_input(entry["index"], list(inputs[name].shape))
        interpreter.allocate_tensors()
        for name, entry in details.items():
            interpreter.set_tensor(entry["index"], inputs[name])
    except (ValueError, RuntimeError) as error:
        raise InputError(source, f"LiteRT cannot load it: {error}") from None
    return Prepared(library_version("ai-edge-litert"), interpreter.invoke)
