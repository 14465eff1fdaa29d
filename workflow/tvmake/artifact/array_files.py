"""Arrays in files from outside: plain ``.npy`` and ``.npz`` files, read only if their unpacked size is plausible for the file's."""

import os
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np

from tvmake.errors import InputError
from tvmake.storage.placeholders import describe_placeholder
from tvmake.storage.plain_files import open_plain

FREE_BYTES, MOST_RATIO = 64 << 20, 200
"""Arrays and images are refused if they unpack to more bytes than this, and to more than this multiple of the file's size."""

ZIP = b"PK\x03\x04"
"""How an ``.npz`` begins."""

LONGEST_SIGN = 32

NUMPY = b"\x93NUMPY"
"""How an ``.npy`` begins."""


@contextmanager
def open_arrays(path: Path) -> Iterator[np.lib.npyio.NpzFile]:
    """Open an ``.npz``.

    Raises:
        InputError: it is empty, truncated, or a placeholder for a file that was not fetched.
        One of :data:`tvmake.artifact.tensor_file.DAMAGE`: it is not an ``.npz`` or not a plain file, unpacks to too much, or has
            two arrays of one name, of which readers might choose different ones.
    """
    with open_plain(path) as file:
        _check_is_whole(file, path)
        _check_members(file)
        archive = np.load(file, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise TypeError("it has one array without a name")
        yield archive


def array_of(archive: np.lib.npyio.NpzFile, name: str) -> np.ndarray:
    """An array of an open ``.npz``.

    Raises:
        One of DAMAGE: the array is missing or damaged.
    """
    array = archive[name]
    if not isinstance(array, np.ndarray):  # numpy returns bytes for members that are not arrays
        raise TypeError("it is not a numpy array")
    return array


def read_array_file(path: Path) -> np.ndarray:
    """The array in an ``.npy``.

    Raises:
        One of DAMAGE: it is not an ``.npy`` or not a plain file, or is shorter than its header says.
    """
    with open_plain(path) as file:
        array: np.ndarray = np.lib.format.read_array(file, allow_pickle=False)
        return array


def _check_is_whole(file: BinaryIO, path: Path) -> None:
    head = file.read(LONGEST_SIGN)
    if not head:
        raise InputError(str(path), "is empty", "write it again, with numpy.savez")
    if placeholder := describe_placeholder(head):
        raise InputError(str(path), f"is {placeholder[0]}", placeholder[1])
    if head.startswith(ZIP) and not zipfile.is_zipfile(file):
        raise InputError(
            str(path), "is cut off: an .npz has a table of its arrays at its end", "copy or download it again"
        )
    file.seek(0)


def _check_members(file: BinaryIO) -> None:
    """Refuse two arrays of one name, and implausible unpacked sizes; zipfile reads no more than a member declares."""
    allowed = max(FREE_BYTES, MOST_RATIO * os.fstat(file.fileno()).st_size)
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            claimed = sum(member.file_size for member in archive.infolist())
            names = Counter(name.removesuffix(".npy") for name in archive.namelist())
        if twice := [name for name, count in names.items() if count > 1]:
            raise ValueError(f"it has {twice[0]!r} twice")
        if claimed > allowed:
            raise ValueError(f"it unpacks to {claimed >> 20} MiB, too much for its size")
    elif file.seek(0) or file.read(len(NUMPY)) != NUMPY:
        raise ValueError("it has no arrays")
    file.seek(0)
