"""Weights on disk (``*.params``), written and read without a copy of all of them in memory.

The format is that of TVM's runtime (``SaveParams`` in src/runtime/file_utils.cc, ``SaveDLTensor`` in include/tvm/runtime/tensor.h): names,
then tensors. Kernels need tensors at multiples of ALIGNMENT bytes, so an unused tensor fills the space before each large one. Large tensors
can thus be mapped from the file, and memory holds only what is used.

This module does not need TVM. Repair: `truncated-parameters`.
"""

import math
import mmap
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tvmake.storage.files import Sink
from tvmake.storage.mapped.mapping import explain_lack_of_memory

MAGIC, TENSOR_MAGIC = 0xF7E58D4F05049CB7, 0xDD5E40F096B4A13F
"""``kTVMNDArrayListMagic`` and ``kTVMTensorMagic`` of TVM's runtime; 8 reserved bytes follow each."""

MOST_NAMES, LONGEST_NAME, MOST_AXES = 1 << 20, 1 << 16, 64

ALIGNMENT = 64
"""``kAllocAlignment`` of TVM's runtime, in bytes: kernels read vectors from tensors' first elements."""

LARGE = 4096
"""Tensors of this many bytes are aligned; smaller ones are copied when they are read."""

FILLER = ".align"
"""The names of unused tensors begin with this."""

CPU = 1
"""``kDLCPU`` of DLPack."""

UINT8 = (1, 8, 1)
"""uint8 as DLPack's type."""


@dataclass(frozen=True)
class TensorForm:
    """A tensor without its data."""

    name: str
    shape: tuple[int, ...]
    type: tuple[int, int, int]
    """DLPack's type: code, bits, lanes."""

    @property
    def size(self) -> int:
        """The size of its data in bytes, as ``SaveDLTensor`` writes them: an element has whole bytes."""
        _, bits, _ = self.type
        return math.prod(self.shape) * ((bits + 7) // 8)


@dataclass(frozen=True)
class StoredTensor(TensorForm):
    """A tensor in a file."""

    offset: int
    """Where its data begin in the file, in bytes."""

    @property
    def is_aligned(self) -> bool:
        """Whether kernels can use it where it is."""
        return self.offset % ALIGNMENT == 0


def stored_tensors(file: Path) -> list[StoredTensor]:
    """The tensors of a file, in order; their data are not read.

    Raises:
        MachineError: it does not fit into the memory that this process may use.
        OSError: it cannot be read.
        ValueError: it is not such a file, or is truncated.
    """
    if not file.stat().st_size:
        raise ValueError("it is cut short")
    with file.open("rb") as opened, explain_lack_of_memory(file):
        mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    with mapped as content:
        try:
            return list(_tensors(_Walk(content)))
        except struct.error:
            raise ValueError("it is cut short") from None


def _tensors(walk: "_Walk") -> Iterator[StoredTensor]:
    magic, _, count = walk.read("QQQ")
    if magic != MAGIC or count > MOST_NAMES:
        raise ValueError("it does not begin as TVM's parameters do")
    names = [walk.read_name() for _ in range(count)]
    (tensors,) = walk.read("Q")
    if tensors != count:
        raise ValueError(f"it has {count} names and {tensors} tensors")
    for name in names:
        magic, _, _, _, axes, code, bits, lanes = walk.read("QQiiiBBH")
        if magic != TENSOR_MAGIC or not 0 <= axes <= MOST_AXES:
            raise ValueError("a tensor does not begin as TVM's do")
        *shape, size = walk.read(f"{axes}qq")
        tensor = StoredTensor(name, tuple(shape), (code, bits, lanes), walk.position)
        if size < 0 or size != tensor.size:
            raise ValueError("a tensor has another size than its shape")
        walk.pass_over(size)
        if not name.startswith(FILLER):
            yield tensor


class _Walk:
    """Goes forward in a file's content; never beyond its end."""

    def __init__(self, content: mmap.mmap):
        self._content, self.position = content, 0

    def read(self, form: str) -> tuple[int, ...]:
        values = struct.unpack_from(f"<{form}", self._content, self.position)
        self.position += struct.calcsize(f"<{form}")
        return values

    def read_name(self) -> str:
        (length,) = self.read("Q")
        if length > LONGEST_NAME:
            raise ValueError("a name is too long")
        begin = self.position
        self.pass_over(length)
        return self._content[begin : self.position].decode()

    def pass_over(self, size: int) -> None:
        self.position += size
        if self.position > len(self._content):
            raise ValueError("it is cut short")


def write_tensors(forms: Sequence[TensorForm], data: Iterable[bytes | memoryview], file: Sink) -> None:
    """Write tensors; equal tensors give equal bytes.

    Args:
        data: the data of each, row-major and little-endian; one is asked for after the other is written.
    """
    names: list[str] = []
    for form in forms:
        names += [*([f"{FILLER}{len(names)}"] if form.size >= LARGE else []), form.name]
    file.write(struct.pack("<QQQ", MAGIC, 0, len(names)))
    for name in map(str.encode, names):
        file.write(struct.pack("<Q", len(name)) + name)
    file.write(struct.pack("<Q", len(names)))
    for form, content in zip(forms, data, strict=True):
        header = _header(form)
        if form.size >= LARGE:
            filling = ALIGNMENT - (file.tell() + FILLER_HEADER + len(header)) % ALIGNMENT
            file.write(_header(TensorForm("", (filling,), UINT8)) + bytes(filling))
        file.write(header)
        file.write(content)


def _header(form: TensorForm) -> bytes:
    axes = len(form.shape)
    return struct.pack(f"<QQiiiBBH{axes}qq", TENSOR_MAGIC, 0, CPU, 0, axes, *form.type, *form.shape, form.size)


FILLER_HEADER = len(_header(TensorForm("", (1,), UINT8)))
