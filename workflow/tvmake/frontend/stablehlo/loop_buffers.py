"""Arrays of which each step of a loop writes one row."""

from typing import Any


class LoopBuffer:
    """An array of which each step of a loop writes one row; nothing else reads it."""

    def __init__(
        self, number: int, shape: tuple[Any, ...], row: Any = None, is_reversed: bool = False, owner: Any = None
    ):
        self.number, self.shape, self.row = number, shape, row
        self.is_reversed = is_reversed
        """Whether the first step writes the last row."""
        self.owner = owner


class BufferRead(Exception):
    """A loop does anything else with an array than to write one row in each step."""

    def __init__(self, buffer: LoopBuffer):
        super().__init__(buffer.number)
        self.buffer = buffer
