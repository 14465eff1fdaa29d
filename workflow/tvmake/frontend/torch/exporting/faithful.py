"""Check that an exported program computes the same as its module.

Code can behave differently during export (``torch.compiler.is_compiling()``): transformers omits or changes masks.
``torch.export`` does not report this, and later checks compare with the program only.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from tvmake.errors import InputError
from tvmake.frontend.torch.exporting.output_structure import return_plain_outputs

MAX_ERROR = 1e-2
"""Largest error, relative to the RMS of the module's outputs. Both run the same operators on the same machine."""

_REMEDY = (
    "its code behaves differently during export (torch.compiler.is_compiling): pass what it then omits, often masks or"
    " token types, as inputs of forward(), or remove that code"
)


def check_faithful(where: str, module: nn.Module, program: ExportedProgram, examples: Sequence[Any]) -> None:
    """Run both on the examples that the module was exported with, and restore the module's buffers.

    Other checks cover modules that fail, return other types, or are not deterministic.

    Raises:
        InputError: the outputs differ.
    """
    with torch.no_grad(), restore_buffers(module):
        try:
            actual = run_on_copies(program.module(), examples)
            with return_plain_outputs(module):
                expected = run_on_copies(module, examples)
                error = _error(actual, expected)
                if error <= MAX_ERROR or _error(run_on_copies(module, examples), expected) > MAX_ERROR:
                    return
        except Exception:  # noqa: BLE001 -- the module is the user's own
            return
    problem = f"torch.export exports another network: its outputs differ by {error:.0%} of the RMS of the module's own"
    raise InputError(where, problem, _REMEDY)


def run_on_copies(run: Any, examples: Sequence[Any]) -> list[Tensor]:
    """Run a module or program on copies of the examples; return its tensors."""
    inputs = pytree.tree_map(lambda value: value.clone() if isinstance(value, Tensor) else value, tuple(examples))
    return [value for value in pytree.tree_leaves(run(*inputs)) if isinstance(value, Tensor)]


def _error(actual: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """The largest RMS error of a floating-point output, relative to the RMS of its expected values."""
    if [output.shape for output in actual] != [output.shape for output in expected]:
        return 0.0
    worst = 0.0
    for output, reference in zip(actual, expected, strict=True):
        if not reference.is_floating_point() or not reference.numel():
            continue
        output, reference = output.double(), reference.double()
        is_equal = output.eq(reference) | (output.isnan() & reference.isnan())
        difference = torch.where(is_equal, 0, output - reference)
        rms = reference.nan_to_num(0, 0, 0).square().mean().sqrt()
        error = (difference.square().mean().sqrt() / rms).item() if difference.any() else 0.0
        worst = max(worst, error if error == error else torch.inf)
    return worst


@contextmanager
def restore_buffers(module: nn.Module) -> Iterator[None]:
    """Restore the module's buffers after this context."""
    before = {name: buffer.clone() for name, buffer in module.named_buffers() if _can_be_written(buffer)}
    try:
        yield
    finally:
        for name, buffer in module.named_buffers():
            if name in before and before[name].shape == buffer.shape:
                buffer.copy_(before[name])


def _can_be_written(buffer: Tensor) -> bool:
    """Whether a buffer is dense and its elements do not share memory, as those of ``expand`` do."""
    if buffer.layout is not torch.strided:
        return False
    return all(stride or extent < 2 for extent, stride in zip(buffer.shape, buffer.stride(), strict=True))
