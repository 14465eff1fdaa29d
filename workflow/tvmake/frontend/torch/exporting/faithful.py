"""Check that an exported program computes the same as its module.

Code can behave differently during export (``torch.compiler.is_compiling()``): transformers omits or changes masks.
``torch.export`` does not report this, and later checks compare with the program only.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from tvmake.errors import InputError
from tvmake.frontend.torch.exporting.output_structure import return_plain_outputs

DEPTH = 6
"""Levels of containers and objects in which tensors are searched."""

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
    with torch.no_grad(), restore_tensors(module):
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
def restore_tensors(module: nn.Module) -> Iterator[None]:
    """Restore the values of the module's buffers, and of the tensors in its attributes, after this context.

    torch.export runs in-place operators of counters in attributes.
    """
    before = [(tensor, tensor.clone()) for tensor in _tensors(module) if _can_be_written(tensor)]
    buffers = {name: tensor for name, tensor in module.named_buffers() if _can_be_written(tensor)}
    values = {name: tensor.clone() for name, tensor in buffers.items()}
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, value in before:
                tensor.copy_(value)
            for name, tensor in module.named_buffers():  # forward() may assign another tensor
                if name in buffers and tensor is not buffers[name] and tensor.shape == values[name].shape:
                    tensor.copy_(values[name])


def _tensors(module: nn.Module) -> Iterable[Tensor]:
    """The module's buffers, and the tensors in attributes, containers and objects such as caches; each once."""
    found: dict[int, Tensor] = {id(tensor): tensor for tensor in module.buffers()}
    known: set[int] = set()

    def visit(value: Any, depth: int) -> None:
        if isinstance(value, nn.Parameter | nn.Module | type) or callable(value) or id(value) in known or not depth:
            return
        known.add(id(value))
        if isinstance(value, Tensor):
            found.setdefault(id(value), value)
        elif isinstance(value, dict):
            visit_all(value.values(), depth)
        elif isinstance(value, list | tuple | deque):
            visit_all(value, depth)
        elif not isinstance(value, int | float | str | bytes | None):
            visit_all(getattr(value, "__dict__", {}).values(), depth)

    def visit_all(values: Iterable[Any], depth: int) -> None:
        for item in list(values):
            visit(item, depth - 1)

    for part in module.modules():
        visit_all((value for name, value in vars(part).items() if name not in ("_parameters", "_modules")), DEPTH)
    return found.values()


def _can_be_written(buffer: Tensor) -> bool:
    """Whether a buffer is dense and its elements do not share memory, as those of ``expand`` do."""
    if buffer.layout is not torch.strided:
        return False
    return all(stride or extent < 2 for extent, stride in zip(buffer.shape, buffer.stride(), strict=True))
