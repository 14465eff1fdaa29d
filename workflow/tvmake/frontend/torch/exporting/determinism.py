"""Check that repeated calls of a module with the same inputs return the same outputs.

A program is one call of ``forward``. Buffers and other tensors that it changes in place are state. What else a module
stores in its attributes between calls (a new tensor, a list, a number) becomes a constant without a warning, so the package would
repeat the first call.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from tvmake.errors import InputError
from tvmake.frontend.torch.exporting.faithful import restore_tensors, run_on_copies
from tvmake.frontend.torch.exporting.output_structure import return_plain_outputs

MAX_ERROR = 1e-4
"""Largest error of an output, relative to its largest value: threads may sum in another order."""

MODULE_ATTRIBUTES = frozenset(vars(nn.Module()))
"""Attributes of every module."""


def check_repeatable(where: str, module: nn.Module, examples: Sequence[Any]) -> None:
    """Call the module; if that changes its attributes, compare with a call that follows one with other values.

    The attributes are restored. Other checks cover buffers and modules that fail or draw random numbers.

    Raises:
        InputError: the outputs for the same inputs have changed.
    """
    with torch.no_grad(), restore_tensors(module), restore_attributes(module), return_plain_outputs(module):
        try:
            before, random = _attribute_snapshot(module), torch.get_rng_state()
            with restore_tensors(module):
                first = run_on_copies(module, examples)
            after = _attribute_snapshot(module)
            changed = [name for name, value in after.items() if name not in before or before[name] != value]
            if not changed or not torch.equal(torch.get_rng_state(), random):
                return
            with restore_tensors(module):
                run_on_copies(module, pytree.tree_map(_change_values, tuple(examples)))
            if _are_equal(first, run_on_copies(module, examples)):
                return
        except Exception:  # noqa: BLE001 -- the module is the user's own
            return
    problem = f"its outputs depend on earlier calls: forward() stores {', '.join(changed[:3])} in the module"
    name = changed[0].rpartition(".")[2]
    remedy = (
        f"write to a buffer: self.register_buffer('{name}', …) in __init__(), and self.{name}.copy_(…) in forward()"
    )
    raise InputError(where, problem, remedy)


def _change_values(value: Any) -> Any:
    """An input of the same shape and dtype, with other values if it is floating-point."""
    return value / 2 + 1 if isinstance(value, Tensor) and value.is_floating_point() else value


def _are_equal(first: Sequence[Tensor], second: Sequence[Tensor]) -> bool:
    if [output.shape for output in first] != [output.shape for output in second]:
        return False
    for before, after in zip(first, second, strict=True):
        bound = (
            MAX_ERROR * before.double().nan_to_num(0, 0, 0).abs().max().item()
            if before.is_floating_point() and before.numel()
            else 0
        )
        if not torch.allclose(before.double(), after.double(), 0, bound, equal_nan=True):
            return False
    return True


def _attribute_snapshot(module: nn.Module) -> dict[str, Any]:
    """A comparable snapshot of the attributes and weights of a module and its submodules, by dotted path."""
    known: dict[int, Any] = {}
    return {
        f"{path}.{name}".lstrip("."): _snapshot(value, known)
        for path, part in module.named_modules()
        for name, value in (*vars(part).items(), *vars(part)["_parameters"].items())
        if name not in MODULE_ATTRIBUTES
    }


def _snapshot(value: Any, known: dict[int, Any], depth: int = 4) -> Any:
    """A comparable snapshot of a value.

    Args:
        known: snapshots of objects by identity, because submodules share a config or a logger.
    """
    if isinstance(value, Tensor):
        return value.data_ptr()  # what is written in place is state of the program
    if isinstance(value, int | float | str | bytes | range | None):
        return value
    if not depth or isinstance(value, nn.Module | type) or callable(value):
        return id(value)
    if id(value) not in known:
        known[id(value)] = id(value)  # for an object that refers to itself
        known[id(value)] = [(str(name), _snapshot(item, known, depth - 1)) for name, item in _items(value)]
    return known[id(value)]


def _items(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, dict):
        return value.items()
    if isinstance(value, Sequence | set):
        return enumerate(value)
    return getattr(value, "__dict__", {}).items()


@contextmanager
def restore_attributes(module: nn.Module) -> Iterator[None]:
    """Restore the attributes of a module and its submodules after this context, and the contents of their containers.

    torch.export leaves fake tensors in attributes to which ``forward`` assigns.
    """
    before = {part: dict(vars(part)) for part in module.modules()}
    contents = [(value, copy(value)) for attributes in before.values() for value in _containers(attributes)]
    try:
        yield
    finally:
        for part, attributes in before.items():
            vars(part).clear()
            vars(part).update(attributes)
        for value, content in contents:
            value.clear()
            (value.extend if isinstance(value, list | deque) else value.update)(content)


def _containers(attributes: dict[str, Any]) -> Iterator[Any]:
    for name, value in attributes.items():
        if name not in MODULE_ATTRIBUTES and type(value) in (list, deque, dict, set):
            yield value
