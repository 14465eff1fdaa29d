"""TFLite models through LiteRT's interpreter."""

from pathlib import Path

import numpy as np

from tvmake.artifact.signature import Signature
from tvmake.errors import InputError, MachineError
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.tflite.source import keeps_state, load
from tvmake.validate.runtime import Runtime, library_version


def open_model(path: str, _options: ImportOptions, signature: Signature) -> Runtime:
    """The model in LiteRT.

    Raises:
        InputError: the file cannot be read, or its inputs or outputs differ from the signature.
        MachineError: LiteRT is not installed.
    """
    try:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType
    except ImportError:
        raise MachineError(
            path, "running a TFLite model needs LiteRT", "install it with `pip install tvmake[tflite]`"
        ) from None
    if not Path(path).is_file():
        raise InputError(path, "no such file")

    def create() -> Interpreter:
        try:
            # The XNNPACK delegate, on by default, may compute in other precisions and orders.
            return Interpreter(
                model_path=path,
                num_threads=1,
                experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
            )
        except (ValueError, RuntimeError) as error:
            raise InputError(path, f"LiteRT cannot load it: {error}", "convert the model again") from None

    interpreter, is_first = create(), True

    def allocate(sample: dict[str, np.ndarray]) -> None:
        for name, details in inputs.items():
            interpreter.resize_tensor_input(details["index"], list(sample[name].shape))
        interpreter.allocate_tensors()
        interpreter.reset_all_variables()

    def reset() -> None:
        nonlocal interpreter, is_first
        # Resources keep their values in an interpreter.
        interpreter, is_first = interpreter if is_first else create(), True

    model = load(Path(path))
    is_stateful = keeps_state(model.root, model.graph)
    inputs = by_name(path, "input", interpreter.get_input_details(), [spec.name for spec in signature.inputs])
    outputs = by_name(path, "output", interpreter.get_output_details(), [spec.name for spec in signature.outputs])

    def run(sample: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        nonlocal is_first
        try:
            if is_first or not is_stateful:
                allocate(sample)
            is_first = False
            for name, details in inputs.items():
                interpreter.set_tensor(details["index"], sample[name])
            interpreter.invoke()
        except (ValueError, RuntimeError) as error:
            raise InputError(path, f"LiteRT cannot run it: {error}", "check the inputs' shapes and types") from None
        # get_tensor copies, so the next call does not overwrite these.
        return {name: interpreter.get_tensor(details["index"]) for name, details in outputs.items()}

    return Runtime(library_version("ai-edge-litert"), run, reset=reset)


def by_name(path: str, kind: str, details: list[dict], names: list[str]) -> dict[str, dict]:
    """The interpreter's details of tensors, by name.

    Raises:
        InputError: a name is missing.
    """
    details_by_name = {entry["name"]: entry for entry in details}
    for name in names:
        if name not in details_by_name:
            raise InputError(
                path, f"has no {kind} {name!r}", f"its {kind}s are: {', '.join(details_by_name)}; import it again"
            )
    return {name: details_by_name[name] for name in names}
