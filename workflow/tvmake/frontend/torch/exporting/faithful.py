"""Whether a program computes what the module does that it was exported from.

Code can ask whether it is being exported (``torch.compiler.is_compiling()``), and do something else then: transformers leaves out masks that it
would otherwise make, or makes others. ``torch.export`` says nothing of it, and everything that is made of the program agrees with the program.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from tvmake.errors import InputError
from tvmake.frontend.torch.exporting.output_structure import plainly

MOST_ERROR = 1e-2
"""Of the module's outputs, as a share of their RMS: both run the same operators on the same machine, so that other code stands out."""

_REMEDY = (
    "its code does something else while it is exported (torch.compiler.is_compiling): give forward() what that leaves out, often masks or types of"
    " tokens, as inputs, or take that code out"
)


def check_faithful(where: str, module: nn.Module, program: ExportedProgram, examples: Sequence[Any]) -> None:
    """Run both on the examples that the module was exported with.

    A module that cannot run, returns other things, or is not the same twice, is left to other checks. Its buffers are afterwards as they were.

    Raises:
        InputError: the outputs differ.
    """
    with torch.no_grad(), same_buffers(module):
        try:
            found = outputs_of(program.module(), examples)
            with plainly(module):
                wanted = outputs_of(module, examples)
                error = _error(found, wanted)
                if error <= MOST_ERROR or _error(outputs_of(module, examples), wanted) > MOST_ERROR:
                    return
        except Exception:  # noqa: BLE001 -- the module is the user's own
            return
    problem = f"what torch.export makes of it is another network: its outputs are off by {error:.0%} of the RMS of the module's own"
    raise InputError(where, problem, _REMEDY)


def outputs_of(run: Any, examples: Sequence[Any]) -> list[Tensor]:
    """What a module or program gives for copies of the examples."""
    given = pytree.tree_map(lambda one: one.clone() if isinstance(one, Tensor) else one, tuple(examples))
    return [one for one in pytree.tree_leaves(run(*given)) if isinstance(one, Tensor)]


def _error(found: Sequence[Tensor], wanted: Sequence[Tensor]) -> float:
    """The RMS of the differences, as a share of what is wanted; that of the worst output of floating-point numbers."""
    if [one.shape for one in found] != [one.shape for one in wanted]:
        return 0.0
    worst = 0.0
    for one, other in zip(found, wanted, strict=True):
        if not other.is_floating_point() or not other.numel():
            continue
        one, other = one.double(), other.double()
        differs = torch.where(one.eq(other) | (one.isnan() & other.isnan()), 0, one - other)
        size = other.nan_to_num(0, 0, 0).square().mean().sqrt()
        share = (differs.square().mean().sqrt() / size).item() if differs.any() else 0.0
        worst = max(worst, share if share == share else torch.inf)
    return worst


@contextmanager
def same_buffers(module: nn.Module) -> Iterator[None]:
    """Its buffers are afterwards as they were."""
    before = {name: buffer.clone() for name, buffer in module.named_buffers() if _can_be_written(buffer)}
    try:
        yield
    finally:
        for name, buffer in module.named_buffers():
            if name in before and before[name].shape == buffer.shape:
                buffer.copy_(before[name])


def _can_be_written(buffer: Tensor) -> bool:
    """Whether a buffer is no sparse tensor, and no element of it stands for several, as in what ``expand`` gives."""
    if buffer.layout is not torch.strided:
        return False
    return all(stride or extent < 2 for extent, stride in zip(buffer.shape, buffer.stride(), strict=True))
