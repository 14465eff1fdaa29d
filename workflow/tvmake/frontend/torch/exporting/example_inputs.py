"""Inputs to trace a module with, from the shapes that the config states or from examples."""

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions, InputSpec
from tvmake.frontend.torch.program import DTYPES

_TORCH_DTYPES = {name: dtype for dtype, name in DTYPES.items()}


def example_inputs(
    source: str, module: nn.Module, examples: Sequence[Tensor], options: ImportOptions
) -> tuple[tuple[Tensor, ...], dict[str, dict[int, Any]] | None]:
    """Inputs to trace with, one per ``forward`` argument, and their dynamic dimensions in torch.export's form.

    Raises:
        InputError: an argument has no shape, an unknown dtype, or no entry is possible for it; ``options`` names an input
            that ``forward`` does not take.
    """
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
    return f"give it one, such as `inputs: {{{name}: {{shape: [1, 3, 224, 224]}}}}`"


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
