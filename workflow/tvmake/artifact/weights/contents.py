"""Compare tensors of files by content, whatever their names. This module does not need TVM."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from tvmake.artifact.weights.file_format import StoredTensor, stored_tensors
from tvmake.storage.mapped.mapping import map_file, release

BLOCK = 16 << 20
"""Bytes that are in memory while a tensor is read."""


@dataclass(frozen=True)
class Content:
    """What makes two tensors the same one."""

    shape: tuple[int, ...]
    type: tuple[int, int, int]
    """DLPack's type: code, bits, lanes."""
    sha256: str
    """Of its data."""


def read_contents(file: Path, names: Collection[str] | None = None) -> dict[str, Content]:
    """The content of a file's tensors, by name.

    Args:
        names: the tensors to read; all by default.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not a file of parameters, or is truncated.
    """
    wanted = [tensor for tensor in stored_tensors(file) if names is None or tensor.name in names]
    data = map_file(file)
    return {tensor.name: Content(tensor.shape, tensor.type, _digest(tensor, data)) for tensor in wanted}


def _digest(tensor: StoredTensor, data: np.ndarray) -> str:
    digest = sha256()
    for block in read_blocks(tensor, data):
        digest.update(block)
    return digest.hexdigest()


def read_blocks(tensor: StoredTensor, data: np.ndarray) -> Iterator[memoryview]:
    """The data of a tensor of a mapped file, block by block."""
    for begin in range(tensor.offset, tensor.offset + tensor.size, BLOCK):
        block = data[begin : min(begin + BLOCK, tensor.offset + tensor.size)]
        yield block.data
        release(block.ctypes.data, block.nbytes)


def distinct_bytes(files: Collection[Path]) -> int:
    """The size of the distinct tensors of several files, in bytes.

    Raises:
        OSError: a file cannot be read.
        ValueError: it is not a file of parameters, or is truncated.
    """
    sizes: dict[Content, int] = {}
    for file in files:
        contents = read_contents(file)
        sizes |= {contents[tensor.name]: tensor.size for tensor in stored_tensors(file)}
    return sum(sizes.values())
