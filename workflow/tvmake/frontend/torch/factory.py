"""``package.module:function``: a user's Python function that builds a PyTorch module."""

import inspect
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions, InputSpec
from tvmake.frontend.torch import keras_model
from tvmake.frontend.torch.exporting.export import exported_program, refuse_untraceable
from tvmake.frontend.torch.program import DTYPES
from tvmake.frontend.trust import check_trusted
from tvmake.process.limits import named
from tvmake.process.user_code import guard_call, load_function

_TORCH_DTYPES = {name: dtype for dtype, name in DTYPES.items()}


def export(source: str, options: ImportOptions) -> ExportedProgram:
    """Call the factory with ``options.arguments`` as keywords, and export the module it returns in eval mode.

    The factory returns an ``nn.Module``, a pair of the module and its example inputs (a tuple, or a dict by the names
    of ``forward``'s arguments), or a Keras model. Inputs without an example take their shape and dtype (float32 by
    default) from ``options.inputs``; a name instead of a size makes a dimension dynamic. Python, numpy and PyTorch are
    seeded with ``options.seed``: the reference calls the factory again and needs the same weights. Installed modules
    take precedence over the working directory.

    Raises:
        InputError: the source is not trusted; the factory cannot be found, fails, or returns another type; inputs are
            missing; PyTorch cannot export the module.
    """
    check_trusted(options)
    keras_model.select_torch_backend()
    function = load_function(source, source)
    random.seed(options.seed)  # Keras draws from Python's generator
    np.random.seed(options.seed % 2**32)
    torch.manual_seed(options.seed)
    remedy = "call it in Python with the same `arguments`"
    with guard_call(source, "the factory fails", function, remedy):
        returned = function(**options.arguments)
    module, examples = _module_and_examples(source, returned)
    if keras_model.is_model(module) and not examples:
        return keras_model.export_model(source, module, options)
    refuse_untraceable(source, module)  # the signature of its forward() cannot be read either
    inputs, dynamic = _inputs(source, module, examples, options)
    with named(source):
        return exported_program(source, module, inputs, dynamic)


def _module_and_examples(source: str, returned: Any) -> tuple[nn.Module, tuple[Tensor, ...]]:
    module, examples = returned if isinstance(returned, tuple) and len(returned) == 2 else (returned, ())
    if isinstance(examples, Tensor):
        examples = (examples,)
    if isinstance(module, nn.Module):
        if any(value.is_meta for value in (*module.parameters(), *module.buffers())):
            remedy = "build it without torch.device('meta'), or load its weights with load_state_dict(…, assign=True)"
            raise InputError(source, "the factory's module has no weights, only their shapes (on 'meta')", remedy)
        if isinstance(examples, dict):
            examples = _order_examples(source, module, examples)
        if isinstance(examples, tuple | list) and all(isinstance(example, Tensor) for example in examples):
            return module, tuple(examples)
        raise InputError(source, "its example inputs are not all tensors", "return (module, (tensor, …))")
    remedy = "return an nn.Module, or an nn.Module and a tuple of example inputs"
    if type(module).__name__ == "IRModule":
        remedy = "set `format: relax` for a function that returns a Relax module"
    elif isinstance(module, ExportedProgram):
        remedy = "return the module itself, or save the program with torch.export.save and give the .pt2 file"
    elif type(module).__module__.partition(".")[0] == "keras":
        remedy = "set KERAS_BACKEND=torch before Keras is imported, so that its models are PyTorch modules"
    raise InputError(source, f"the factory returns {type(module).__name__}, not a module", remedy)


def _order_examples(source: str, module: nn.Module, examples: dict[str, Any]) -> tuple[Any, ...]:
    """Order examples that are given by the names of forward()'s arguments."""
    names = list(inspect.signature(module.forward).parameters)[: len(examples)]
    if set(examples) != set(names):
        problem = (
            f"its example inputs are called {', '.join(map(str, examples))}; forward() begins with {', '.join(names)}"
        )
        raise InputError(source, problem, "put these arguments first in forward(), and give an example of each")
    return tuple(examples[name] for name in names)


def _inputs(
    source: str, module: nn.Module, examples: Sequence[Tensor], options: ImportOptions
) -> tuple[tuple[Tensor, ...], dict[str, dict[int, Any]] | None]:
    """Inputs to trace with, one per ``forward`` argument, and their dynamic dimensions in torch.export's form."""
    parameters = [
        parameter
        for parameter in inspect.signature(module.forward).parameters.values()
        if parameter.kind is not parameter.VAR_KEYWORD  # these and arguments with a default are optional
        and (parameter.kind is not parameter.KEYWORD_ONLY or parameter.default is parameter.empty)
    ]
    if any(
        parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD) for parameter in parameters
    ):
        if options.inputs or not examples:
            remedy = "give forward() plain arguments, one per input"
            raise InputError(source, "its forward() takes *args or keyword-only arguments", remedy)
        return tuple(examples), None
    names = [parameter.name for parameter in parameters]
    unknown = [name for name in options.inputs if name not in names]
    if unknown:
        raise InputError(source, f"forward() has no argument '{unknown[0]}'", f"its arguments are: {', '.join(names)}")
    example_by_name = dict(zip(names, examples, strict=False))
    required = [
        p.name for p in parameters if p.default is p.empty or p.name in options.inputs or p.name in example_by_name
    ]
    if required != names[: len(required)]:
        skipped = next(name for name in names if name not in required)
        raise InputError(source, f"no shape for the input '{skipped}'", _shape_remedy(skipped))
    symbols = sorted(
        {extent for entry in options.inputs.values() for extent in entry.shape or () if isinstance(extent, str)}
    )
    # Different sizes, none 0 or 1, so that tracing neither specialises nor merges dimensions.
    sizes = {symbol: 4 + 2 * index for index, symbol in enumerate(symbols)}
    dims = {symbol: Dim(symbol) for symbol in symbols}
    generator = torch.Generator().manual_seed(options.seed)
    inputs, dynamic = [], {}
    for name in required:
        entry = options.inputs.get(name, InputSpec())
        example = example_by_name.get(name)
        shape = entry.shape
        dynamic[name] = {axis: dims[extent] for axis, extent in enumerate(shape or ()) if isinstance(extent, str)}
        if example is not None and (shape is None or list(example.shape) == shape):
            inputs.append(_check_example_dtype(source, name, example, entry.dtype))
            continue
        if shape is None:
            raise InputError(source, f"no shape for the input '{name}'", _shape_remedy(name))
        dtype = entry.dtype or (DTYPES.get(example.dtype, "float32") if example is not None else "float32")
        extents = [sizes[extent] if isinstance(extent, str) else extent for extent in shape]
        inputs.append(_random_input(source, name, extents, dtype, entry.range, generator))
    return tuple(inputs), dynamic if symbols else None


def _shape_remedy(name: str) -> str:
    return f"state it under the model: `inputs: {{{name}: {{shape: [1, 3, 224, 224]}}}}`"


def _check_example_dtype(source: str, name: str, example: Tensor, dtype: str | None) -> Tensor:
    if dtype is not None and DTYPES.get(example.dtype) != dtype:
        problem = f"input '{name}' is {DTYPES.get(example.dtype, example.dtype)} in the factory's example, not {dtype}"
        raise InputError(source, problem, "change one of the two")
    return example


def _random_input(
    source: str, name: str, shape: list[int], dtype: str, bounds: tuple[float, float] | None, generator: torch.Generator
) -> Tensor:
    if dtype not in _TORCH_DTYPES:
        known = ", ".join(sorted(_TORCH_DTYPES))
        raise InputError(source, f"input '{name}': PyTorch has no dtype '{dtype}'", f"known: {known}")
    torch_dtype = _TORCH_DTYPES[dtype]
    low, high = bounds or (0.0, 1.0)
    if torch_dtype.is_floating_point:
        return (torch.rand(shape, generator=generator) * (high - low) + low).to(torch_dtype)
    return torch.full(shape, int(low), dtype=torch_dtype)  # zero is a valid index of any table
