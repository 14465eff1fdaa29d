"""Files that are mapped to memory, whose pages are returned to the system after use.

The system reads a page of a mapped file when something reads it. Such pages count as the process's memory until they are released,
and are read again if they are needed again. A stage that reads one tensor after the other thus has one of them in memory.
"""

import errno
import mmap
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np

from tvmake.storage.plain_files import open_plain
from tvmake.storage.refusals import system_error

_DONTNEED: int | None = getattr(mmap, "MADV_DONTNEED", None)
"""Windows has none."""

_maps: "weakref.WeakValueDictionary[int, mmap.mmap]" = weakref.WeakValueDictionary()
"""The mapped files by address."""


def map_file(file: Path) -> np.ndarray:
    """The content of a file as bytes. Writing to the array changes this process's copy, which :func:`release` discards.

    Raises:
        MachineError: it does not fit into the memory that this process may use.
        OSError: it cannot be read, or is not a plain file.
        ValueError: it is empty.
    """
    with open_plain(file) as opened, explain_lack_of_memory(file):
        return map_opened(opened)


@contextmanager
def explain_lack_of_memory(file: Path) -> Iterator[None]:
    """Report a lack of memory for a file that is mapped in this block.

    Raises:
        MachineError: there is none.
    """
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOMEM and (refusal := system_error(error.errno, str(file))):
            raise refusal from None
        raise


def map_opened(file: BinaryIO) -> np.ndarray:
    """The content of an open file, as :func:`map_file` maps it."""
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    content = np.frombuffer(mapped, "uint8")
    _maps[content.ctypes.data] = mapped
    return content


def is_mapped(array: np.ndarray) -> bool:
    """Whether an array's data are mapped from a file."""
    address = array.ctypes.data
    return any(start <= address < start + len(mapped) for start, mapped in _maps.items())


def release(address: int, size: int) -> None:
    """Return the memory of mapped bytes to the system; no effect on other memory."""
    if _DONTNEED is None or not size:
        return
    for start, mapped in list(_maps.items()):
        if start <= address and address + size <= start + len(mapped):
            begin = (address - start) // mmap.PAGESIZE * mmap.PAGESIZE
            mapped.madvise(_DONTNEED, begin, address - start + size - begin)
