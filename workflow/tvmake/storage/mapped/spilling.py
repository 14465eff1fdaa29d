"""Large values that a stage computes, in temporary files: mapped, so that :func:`.mapping.release` returns their memory.

The files have no name, and disappear with the process or with the last array in them. They are in the system's directory for temporary
files (``TMPDIR``); if it has no space, values stay in memory.
"""

import mmap
import os
import tempfile
from typing import BinaryIO

import numpy as np

from tvmake.storage.mapped.mapping import map_opened, release

LARGE = 1 << 20
"""Smaller arrays stay in memory."""

SEGMENT_BYTES = 1 << 30
"""Size of a file, of which only the written part takes space; larger arrays have a file of their own size."""


class _Segment:
    def __init__(self, size: int):
        self._file: BinaryIO = tempfile.TemporaryFile(prefix="tvmake-weights-")  # noqa: SIM115  # open while arrays use it
        os.ftruncate(self._file.fileno(), size)
        self._content, self._end = map_opened(self._file), 0

    def add(self, data: np.ndarray) -> np.ndarray | None:
        """Write bytes, and return them mapped; None if there is no room in the file."""
        begin, end = self._end, self._end + data.nbytes
        if end > self._content.nbytes:
            return None
        written = 0
        while written < data.nbytes:
            written += os.pwrite(self._file.fileno(), data[written:].data, begin + written)
        self._end = end + -end % mmap.PAGESIZE
        return self._content[begin:end]


_current: _Segment | None = None
"""The file that takes further arrays."""


def _forget() -> None:
    """Let a fork begin a file of its own."""
    global _current
    _current = None


os.register_at_fork(after_in_child=_forget)


def spill(array: np.ndarray) -> np.ndarray:
    """A large array's bytes in a temporary file, with its memory released; the array if it is small or cannot be written.

    Args:
        array: contiguous.
    """
    global _current  # arrays share files: each takes a file descriptor
    if array.nbytes < LARGE:
        return array
    data = array.reshape(-1).view(np.uint8)
    try:
        spilled = _current.add(data) if _current else None
        if spilled is None:
            _current = _Segment(max(SEGMENT_BYTES, data.nbytes))
            spilled = _current.add(data)
    except (OSError, ValueError):
        return array
    assert spilled is not None
    release(spilled.ctypes.data, spilled.nbytes)
    return spilled.view(array.dtype).reshape(array.shape)
