"""Export Keras 3 models (``.keras``, ``.h5``), which are PyTorch modules on Keras' PyTorch backend."""

import os
import re
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram

from tvmake.artifact.signature import Signature, TensorSpec
from tvmake.errors import InputError, MachineError
from tvmake.frontend.configured_inputs import check_inputs
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.source_file import COPY, open_source
from tvmake.frontend.torch.exporting.named_inputs import NamedInputsModule
from tvmake.frontend.trust import check_trusted

BACKEND = "KERAS_BACKEND"
_CUSTOM = (
    "write a function that imports the module with it and returns keras.saving.load_model(…), and name that: "
    "`source: module:function` (docs/guides/import-other.md)"
)
_SAVE = "write it again with model.save('model.keras') in Keras 3"


def export(source: str, options: ImportOptions) -> ExportedProgram:
    """Load a model and export it.

    Inputs have the model's own names and dtypes. ``options.inputs`` fixes dynamic dimensions; the batch is 1 by default.

    Raises:
        InputError: the source is not trusted, cannot be loaded or exported, or has a dynamic dimension that is not fixed.
        MachineError: Keras is not installed.
    """
    with open_source(Path(source), Path(source).suffix.lower(), COPY):
        check_trusted(options)
    return export_model(source, _load(source), options)


def select_torch_backend() -> None:
    """Select Keras' PyTorch backend in this process, unless the environment sets another or Keras is loaded."""
    os.environ.setdefault(BACKEND, "torch")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")  # otherwise Keras moves its weights to a GPU


def is_model(value: Any) -> bool:
    """Whether a value is a Keras model with known inputs."""
    keras = sys.modules.get("keras")
    return hasattr(keras, "Model") and isinstance(value, keras.Model) and bool(getattr(value, "inputs", None))  # type: ignore[union-attr]


def export_model(source: str, model: Any, options: ImportOptions) -> ExportedProgram:
    """Export a Keras model on its PyTorch backend; raises InputError as ``export``."""
    inputs = [_example(source, spec, options) for spec in _specs(source, model, options)]
    module = NamedInputsModule(model, [spec.name for spec in model.inputs], _call)
    try:
        with torch.no_grad():
            return torch.export.export(module, tuple(inputs))
    except Exception as error:
        line = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        problem = f"torch.export cannot trace it: {type(error).__name__}: {line[:300]}"
        raise InputError(source, problem, "export it to ONNX: model.export('model.onnx', format='onnx')") from error


def _load(source: str) -> Any:
    if "keras" in sys.modules and sys.modules["keras"].backend.backend() != "torch":
        raise MachineError(source, "Keras runs on another backend in this process", f"set {BACKEND}=torch")
    os.environ[BACKEND] = "torch"
    select_torch_backend()
    try:
        import keras  # type: ignore[import-untyped]
    except ImportError as error:
        raise MachineError(
            source, f"reading it needs the library '{error.name}'", "install it: pip install 'tvmake[keras]'"
        ) from None
    try:
        # Lambda layers contain code, which a trusted file may run.
        return keras.saving.load_model(source, compile=False, safe_mode=False)
    except Exception as error:
        cause = error
        while isinstance(cause.__context__, Exception):  # Keras repeats the error for each enclosing layer
            cause = cause.__context__
        missing = re.search(r"Could not locate (?:class|function) '([^']+)'", f"{error} {cause}")
        if missing:
            problem = f"Keras cannot load it: no '{missing[1]}' is registered, and Keras has none of its own"
            raise InputError(source, problem, _CUSTOM) from error
        line = next((line.strip() for line in str(cause).splitlines() if line.strip()), type(cause).__name__)
        problem = f"Keras {keras.__version__} cannot load it: {type(cause).__name__}: {line[:300]}"
        raise InputError(source, problem, _SAVE) from error


def _call(model: Any, values: list[Tensor]) -> Any:
    """The model's outputs, as in inference."""
    return model(values[0] if len(values) == 1 else values, training=False)


def _specs(source: str, model: Any, options: ImportOptions) -> list[TensorSpec]:
    """The model's inputs, checked against the config."""
    if not getattr(model, "inputs", None):
        raise InputError(source, "has no known inputs", "build it before saving: call it once on an example")
    specs = []
    for tensor in model.inputs:
        if not str(tensor.name).isidentifier():
            raise InputError(
                source, f"its input is called '{tensor.name}'", "give it a name that is a Python identifier"
            )
        shape = tuple("?" if extent is None else int(extent) for extent in tensor.shape)
        specs.append(TensorSpec(name=tensor.name, relax_name=tensor.name, shape=shape, dtype=str(tensor.dtype)))
    check_inputs(source, Signature(inputs=tuple(specs), outputs=()), options.inputs)
    return specs


def _example(source: str, spec: TensorSpec, options: ImportOptions) -> Tensor:
    configured = options.inputs[spec.name].shape if spec.name in options.inputs else None
    shape = list(configured or spec.shape)
    if shape and shape[0] == "?":
        shape[0] = 1
    if any(isinstance(extent, str) for extent in shape):
        listed = ", ".join("224" if isinstance(extent, str) else str(extent) for extent in shape)
        problem = f"its input '{spec.name}' has a dynamic dimension: {list(spec.shape)}".replace("'?'", "?")
        raise InputError(source, problem, f"fix it under the model: `inputs: {{{spec.name}: {{shape: [{listed}]}}}}`")
    return torch.zeros(shape, dtype=getattr(torch, spec.dtype))
