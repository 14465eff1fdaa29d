"""Small values that depend on no input, known while a module is traced.

A flag in a buffer says that a codebook is initialised, points in time are made of constants, axes are listed by a range: code asks for
their values, and torch.export, which traces without values, refuses that. Here what is computed of constants, small buffers and
parameters alone is computed beside the trace, and handed to whatever asks for it.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from tvmake.frontend.torch.exporting import checks

LARGEST = 4096
"""Elements of a value that is known."""

RANDOM = ("rand", "normal", "bernoulli", "multinomial", "dropout", "empty", "exponential", "uniform", "poisson", "new")
"""Parts of the names of what draws, or leaves memory as it is."""

ANSWERS = {
    Tensor.__bool__, Tensor.__int__, Tensor.__float__, Tensor.__index__, Tensor.__contains__, Tensor.item, Tensor.tolist,
    torch.equal, Tensor.equal, torch.allclose, Tensor.allclose,
}  # fmt: skip
"""What asks for values."""

WRITING = {
    "__setitem__", "__set__", "__iadd__", "__isub__", "__imul__", "__itruediv__", "__idiv__", "__ifloordiv__", "__imod__", "__ipow__",
    "__iand__", "__ior__", "__ixor__", "__ilshift__", "__irshift__",
}  # fmt: skip
"""What changes a tensor, beside what ends with a line below."""


class KnownValues(TorchFunctionMode):
    """While this is entered, code that asks for values of a module's small buffers and parameters, and of what is computed of them, gets them; what it
    asserts of other values is so.

    Args:
        module: that is traced; its buffers and parameters still have their values.
    """

    def __init__(self, module: nn.Module):
        super().__init__()
        self.state = [
            (kept, name, value.detach().clone())
            for part in module.modules()
            for kept in (part._buffers, part._parameters)
            for name, value in kept.items()
            if value is not None and value.numel() <= LARGEST
        ]
        self.known: dict[int, tuple[Tensor, Tensor | None]] = {}
        """What is traced, which has to live as long as its address is a key, and its value; None once that is no longer known."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = [one for one in pytree.tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        values = [self._value(one) for one in given]
        is_known = all(value is not None for value in values)
        if function in ANSWERS and is_known and given:
            return self._computed(function, args, kwargs)
        if function is Tensor.__bool__ and (wanted := checks.asserted()) is not None:
            return wanted
        found = (
            checks.WITHOUT_LOOKUPS[function](*args, **kwargs) if function in checks.WITHOUT_LOOKUPS else NotImplemented
        )
        found = function(*args, **kwargs) if found is NotImplemented else found
        name = getattr(function, "__name__", "")
        is_written = name in WRITING or (name.endswith("_") and not name.endswith("__")) or "out" in kwargs
        is_noted = (
            is_known
            and not any(word in name for word in RANDOM)
            and self._note(function, args, kwargs, found, is_written)
        )
        if is_written and not is_noted:
            self._forget([value for value in values if value is not None])
        return found

    def _note(self, function: Any, args: Any, kwargs: Any, found: Any, is_written: bool) -> bool:
        """Do with the values what was traced, and whether that could be done."""
        traced = [one for one in pytree.tree_leaves(found) if isinstance(one, Tensor)]
        if not is_written and not any(one.numel() <= LARGEST for one in traced):
            return False
        try:
            values = [
                one for one in pytree.tree_leaves(self._computed(function, args, kwargs)) if isinstance(one, Tensor)
            ]
        except Exception:  # noqa: BLE001 -- whatever it says: the values are not known
            return False
        if [one.shape for one in values] != [one.shape for one in traced]:
            return False
        self.known |= {
            id(one): (one, value) for one, value in zip(traced, values, strict=True) if one.numel() <= LARGEST
        }
        return True

    def _forget(self, values: list[Tensor]) -> None:
        """What was written with values that are not known, and all that shares its memory."""
        memories = {value.untyped_storage().data_ptr() for value in values}
        forgotten = [
            key
            for key, (_, value) in self.known.items()
            if value is not None and value.untyped_storage().data_ptr() in memories
        ]
        for key in forgotten:
            self.known[key] = (self.known[key][0], None)

    def _value(self, traced: Tensor) -> Tensor | None:
        if (pair := self.known.get(id(traced))) is not None:
            return pair[1]
        value = next((value for kept, name, value in self.state if kept.get(name) is traced), None)
        if value is not None:
            self.known[id(traced)] = (traced, value)
        return value

    def _computed(self, function: Any, args: Any, kwargs: Any) -> Any:
        """What a function gives for the values."""
        args, kwargs = pytree.tree_map_only(Tensor, self._value, (args, kwargs))
        with torch.no_grad(), torch._C.DisableTorchFunction(), _disable_current_modes():
            return function(*args, **kwargs)
