"""Evaluate small tensors that depend on no input while a module is traced.

Code may read a flag in a buffer, a list of times or a range of axes. torch.export traces without values and refuses
that. This mode computes the values that depend on constants, small buffers and parameters only during the trace, and
returns them to code that reads them.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from tvmake.frontend.torch.exporting import checks

LARGEST = 4096
"""Maximum number of elements of a value that is computed."""

RANDOM = ("rand", "normal", "bernoulli", "multinomial", "dropout", "empty", "exponential", "uniform", "poisson", "new")
"""Parts of the names of functions that draw random numbers or leave memory uninitialised."""

READING = {
    Tensor.__bool__, Tensor.__int__, Tensor.__float__, Tensor.__index__, Tensor.__contains__, Tensor.item, Tensor.tolist,
    torch.equal, Tensor.equal, torch.allclose, Tensor.allclose,
}  # fmt: skip
"""Functions that read values."""

WRITING = {
    "__setitem__", "__set__", "__iadd__", "__isub__", "__imul__", "__itruediv__", "__idiv__", "__ifloordiv__", "__imod__", "__ipow__",
    "__iand__", "__ior__", "__ixor__", "__ilshift__", "__irshift__",
}  # fmt: skip
"""Functions that change a tensor, in addition to those whose names end with an underscore."""


class KnownValues(TorchFunctionMode):
    """Return the values of small buffers and parameters, and of tensors computed from them, to code that reads them.

    Assertions on other values are assumed to hold.

    Args:
        module: the module to trace; its buffers and parameters still have their values.
    """

    def __init__(self, module: nn.Module):
        super().__init__()
        self.state = [
            (tensors, name, value.detach().clone())
            for part in module.modules()
            for tensors in (part._buffers, part._parameters)
            for name, value in tensors.items()
            if value is not None and value.numel() <= LARGEST
        ]
        self.known: dict[int, tuple[Tensor, Tensor | None]] = {}
        """Traced tensors and their values by the tensors' addresses. The value is None once it is unknown."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        operands = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        values = [self._value(operand) for operand in operands]
        is_known = all(value is not None for value in values)
        if function in READING and is_known and operands:
            return self._evaluate(function, args, kwargs)
        if function is Tensor.__bool__ and (expected := checks.asserted_boolean()) is not None:
            return expected
        result = checks.EQUIVALENTS[function](*args, **kwargs) if function in checks.EQUIVALENTS else NotImplemented
        result = function(*args, **kwargs) if result is NotImplemented else result
        name = getattr(function, "__name__", "")
        is_written = name in WRITING or (name.endswith("_") and not name.endswith("__")) or "out" in kwargs
        is_noted = (
            is_known
            and not any(word in name for word in RANDOM)
            and self._note(function, args, kwargs, result, is_written)
        )
        if is_written and not is_noted:
            self._forget([value for value in values if value is not None])
        return result

    def _note(self, function: Any, args: Any, kwargs: Any, result: Any, is_written: bool) -> bool:
        """Apply a traced function to the values; return whether its results are known."""
        traced = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor)]
        if not is_written and not any(tensor.numel() <= LARGEST for tensor in traced):
            return False
        try:
            leaves = pytree.tree_leaves(self._evaluate(function, args, kwargs))
        except Exception:  # noqa: BLE001 -- after any error the values are unknown
            return False
        values = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        if [value.shape for value in values] != [tensor.shape for tensor in traced]:
            return False
        self.known |= {
            id(tensor): (tensor, value)
            for tensor, value in zip(traced, values, strict=True)
            if tensor.numel() <= LARGEST
        }
        return True

    def _forget(self, values: list[Tensor]) -> None:
        """Mark values as unknown after a write of unknown values, with all that share their memory."""
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
        value = next((value for tensors, name, value in self.state if tensors.get(name) is traced), None)
        if value is not None:
            self.known[id(traced)] = (traced, value)
        return value

    def _evaluate(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Apply a function to the values of its operands."""
        args, kwargs = pytree.tree_map_only(Tensor, self._value, (args, kwargs))
        with torch.no_grad(), torch._C.DisableTorchFunction(), _disable_current_modes():
            return function(*args, **kwargs)
