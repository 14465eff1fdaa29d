"""Limit the memory that TVM keeps for networks with dynamic dimensions.

The pool is emptied when inputs or states have other shapes than in the run before, as a cache that grows; runs with the same shapes
take their memory from it.
Repair: `memory-of-every-shape`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tvmake.artifact.signature import Signature

CLEAR = "vm.builtin.memory_manager.clear"
"""TVM's function that frees unused memory in the pools of all devices; registered with the virtual machine's library."""


class MemoryPool:
    """The memory pool of one virtual machine.

    Args:
        function: gets a function of TVM's by name, on the virtual machine's side.
    """

    def __init__(self, signature: Signature, function: Callable[[str], Callable[[], Any]]):
        self._is_dynamic = any(isinstance(extent, str) for spec in signature.arguments for extent in spec.shape)
        self._function = function
        self._shapes: list[tuple[int, ...]] = []

    def prepare(self, arguments: Sequence[Any]) -> None:
        """Free the memory of other shapes before a run on these inputs and states: arrays or tensors."""
        if not self._is_dynamic:
            return
        shapes = [tuple(value.shape) for value in arguments]
        if self._shapes and shapes != self._shapes:
            self._function(CLEAR)()
        self._shapes = shapes
