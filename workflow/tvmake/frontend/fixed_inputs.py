"""Inputs that the config gives a value, of formats other than ONNX: parameters of the network, no longer inputs of the package.

ONNX models get theirs before the import (:func:`tvmake.frontend.onnx.inputs.input_values`), where a value may select a branch.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tvmake.artifact.signature import Signature, TensorSpec
from tvmake.artifact.tensor_file import numpy_dtype
from tvmake.errors import InputError
from tvmake.frontend.formats import inspection_modules
from tvmake.frontend.imported import ImportedModel
from tvmake.frontend.options import ImportOptions, InputSpec


@dataclass(frozen=True)
class FixedInputs:
    """The inputs with a value, and how the source takes them."""

    values: dict[str, np.ndarray]
    """By the input's name in the source."""
    order: tuple[str, ...]
    """The names of all inputs, as the source takes them."""
    specs: dict[str, TensorSpec]
    """The inputs with a value."""

    def complete(self, signature: Signature) -> Signature:
        """The signature of the source: that of the package, with the inputs that it does not take."""
        specs = {**self.specs, **{spec.name: spec for spec in signature.inputs}}
        return signature.model_copy(update={"inputs": tuple(specs[name] for name in self.order)})


def fixed_inputs(options: ImportOptions) -> FixedInputs | None:
    """The inputs with a value; None without any, and for ONNX models.

    Raises:
        InputError: a value does not fit its input, or the source has to be run to know its inputs.
    """
    modules = inspection_modules(options)
    if not modules:
        return None
    entries = {name: entry for name, entry in options.inputs.items() if entry.value is not None}
    # It reaches every frontend, and the stages of most models must not depend on all of them.
    declared = importlib.import_module(modules[0]).inspect_source(options, lists_files=False)
    if not declared.inputs:
        problem = (
            f"input '{next(iter(entries))}' cannot have a value: the inputs of this source are known only when it runs"
        )
        raise InputError(options.source, problem, "write the value into forward(), or export it as .pt2 or .onnx")
    specs = {spec.name: spec for spec in declared.inputs}
    values = {name: _fit(specs[name], entry, options.source) for name, entry in entries.items() if name in specs}
    shapes = {name: specs[name].model_copy(update={"shape": value.shape}) for name, value in values.items()}
    return FixedInputs(values, tuple(specs), shapes)


def bind_values(imported: ImportedModel, fixed: FixedInputs | None) -> ImportedModel:
    """The network with the inputs that have a value as parameters."""
    from tvmake.frontend.relax_fixes import with_main

    if fixed is None:
        return imported
    main, count = imported.module["main"], len(imported.signature.inputs)
    variables = dict(zip((spec.name for spec in imported.signature.inputs), main.params[:count], strict=True))
    bound = {str(variables[name].name): value for name, value in fixed.values.items()}
    kept = [variable for name, variable in variables.items() if name not in fixed.values]
    behind = len(imported.signature.arguments)
    parameters = [*kept, *main.params[count:behind], *(variables[name] for name in fixed.values), *main.params[behind:]]
    inputs = tuple(spec for spec in imported.signature.inputs if spec.name not in fixed.values)
    return replace(
        imported,
        module=with_main(imported.module, parameters, main.body),
        params=bound | imported.params,
        signature=imported.signature.model_copy(update={"inputs": inputs}),
    )


def _fit(spec: TensorSpec, entry: InputSpec, where: str) -> np.ndarray:
    """The value as an array of the input's type and shape.

    Raises:
        InputError: it does not fit.
    """
    shape = spec.shape if entry.shape is None else tuple(entry.shape)
    what = f"input '{spec.name}' is {spec.dtype}[{', '.join(map(str, shape))}]"
    sizes = [extent for extent in shape if isinstance(extent, int)]
    if len(sizes) < len(shape):
        remedy = f"give it one: `inputs: {{{spec.name}: {{shape: […]}}}}`"
        raise InputError(where, f"{what}, and a value needs a fixed shape", remedy)
    dtype = numpy_dtype(spec.dtype)
    try:
        given = np.asarray(entry.value)
        array = np.broadcast_to(given.astype(dtype), sizes).copy()
    except (ValueError, TypeError, OverflowError):
        remedy = "write one number, or nested lists of the input's shape"
        raise InputError(where, f"{what}, which cannot be {entry.value}", remedy) from None
    is_exact = dtype.kind not in "iub" or bool((array == given).all())
    if not is_exact or (given.dtype.kind == "b") != (dtype.kind == "b"):
        raise InputError(where, f"{what}, which cannot be {entry.value}", "write a value of its element type")
    return array


def complete_inputs(inputs: Mapping[str, np.ndarray], fixed: FixedInputs | None) -> dict[str, np.ndarray]:
    """The inputs of the source: those of the package, and those with a value."""
    return {**inputs, **(fixed.values if fixed else {})}
