"""Check that a module returns the same for the same inputs, however often it is called.

A program is one call of ``forward``. What a module keeps for the next one in attributes of its own (the state of a recurrent network, a cache, a
counter) is a constant in it, as it was, and torch.export says nothing of that: the package would agree with each first call.
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
from tvmake.frontend.torch.exporting.faithful import outputs_of, same_buffers
from tvmake.frontend.torch.exporting.output_structure import plainly

MOST_ERROR = 1e-4
"""Of a value, as a share of the largest one: threads may add up in another order."""

OF_PYTORCH = frozenset(vars(nn.Module()))
"""Attributes of every module."""


def check_repeatable(where: str, module: nn.Module, examples: Sequence[Any]) -> None:
    """Call the module, and where that changes its attributes, once more after a call with other values. They are afterwards what they were.

    A module that cannot be called, or draws random numbers, is left to other checks, and so are its buffers, which a program lists.

    Raises:
        InputError: what it gives for the same inputs has changed.
    """
    with torch.no_grad(), same_buffers(module), same_attributes(module), plainly(module):
        try:
            before, random = _kept(module), torch.get_rng_state()
            with same_buffers(module):
                first = outputs_of(module, examples)
            after = _kept(module)
            changed = [name for name, value in after.items() if name not in before or before[name] != value]
            if not changed or not torch.equal(torch.get_rng_state(), random):
                return
            with same_buffers(module):
                outputs_of(module, pytree.tree_map(_another, tuple(examples)))
            if _are_equal(first, outputs_of(module, examples)):
                return
        except Exception:  # noqa: BLE001 -- the module is the user's own
            return
    problem = (
        f"what a call gives depends on the calls before it: forward() keeps {', '.join(changed[:3])} in the module"
    )
    raise InputError(where, problem, "make what is kept an input and an output of forward()")


def _another(value: Any) -> Any:
    """An input of the same kind with other values, where it has values that may be any."""
    return value / 2 + 1 if isinstance(value, Tensor) and value.is_floating_point() else value


def _are_equal(first: Sequence[Tensor], second: Sequence[Tensor]) -> bool:
    if [one.shape for one in first] != [one.shape for one in second]:
        return False
    for one, other in zip(first, second, strict=True):
        bound = (
            MOST_ERROR * one.double().nan_to_num(0, 0, 0).abs().max().item()
            if one.is_floating_point() and one.numel()
            else 0
        )
        if not torch.allclose(one.double(), other.double(), 0, bound, equal_nan=True):
            return False
    return True


def _kept(module: nn.Module) -> dict[str, Any]:
    """What a module and its parts have in attributes of their own, and their weights, by place, in a form that shows what has changed."""
    known: dict[int, Any] = {}
    return {
        f"{place}.{name}".lstrip("."): _form(value, known)
        for place, part in module.named_modules()
        for name, value in (*vars(part).items(), *vars(part)["_parameters"].items())
        if name not in OF_PYTORCH
    }


def _form(value: Any, known: dict[int, Any], depth: int = 4) -> Any:
    """A value's form.

    Args:
        known: those of objects by their identity, because parts share a config or a logger.
    """
    if isinstance(value, Tensor):
        return value.data_ptr(), value._version
    if isinstance(value, int | float | str | bytes | range | None):
        return value
    if not depth or isinstance(value, nn.Module | type) or callable(value):
        return id(value)
    if id(value) not in known:
        known[id(value)] = id(value)  # for an object that leads to itself
        known[id(value)] = [(str(name), _form(item, known, depth - 1)) for name, item in _items(value)]
    return known[id(value)]


def _items(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, dict):
        return value.items()
    if isinstance(value, Sequence | set):
        return enumerate(value)
    return getattr(value, "__dict__", {}).items()


@contextmanager
def same_attributes(module: nn.Module) -> Iterator[None]:
    """What the module and its parts keep in attributes, and in lists and dicts there, is afterwards what it was.

    torch.export leaves tensors without values where ``forward`` keeps what it computes.
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
        if name not in OF_PYTORCH and type(value) in (list, deque, dict, set):
            yield value
