"""mod.params without its values and without TVM. Repair: `truncated-parameters`."""

import os
import struct
from pathlib import Path
from typing import BinaryIO

MAGIC, TENSOR_MAGIC = 0xF7E58D4F05049CB7, 0xDD5E40F096B4A13F
"""``kTVMNDArrayListMagic`` and ``kTVMTensorMagic`` of TVM's runtime; 8 reserved bytes follow each."""

MOST_NAMES, LONGEST_NAME, MOST_AXES = 1 << 20, 1 << 16, 64


def parameter_names(file: Path) -> set[str]:
    """The parameters of a file, with their values.

    Raises:
        ValueError: it is not such a file, or is truncated.
    """
    with file.open("rb") as opened:
        try:
            magic, _, count = _read(opened, "QQQ")
            if magic != MAGIC or count > MOST_NAMES:
                raise ValueError("it does not begin as TVM's parameters do")
            names = [_name(opened) for _ in range(count)]
            (tensors,) = _read(opened, "Q")
            if tensors != count:
                raise ValueError(f"it has {count} names and {tensors} tensors")
            for _ in names:
                _pass_over_tensor(opened)
        except struct.error:
            raise ValueError("it is cut short") from None
        if opened.tell() > os.fstat(opened.fileno()).st_size:
            raise ValueError("it is cut short")
    return set(names)


def _read(file: BinaryIO, form: str) -> tuple[int, ...]:
    form = f"<{form}"
    return struct.unpack(form, file.read(struct.calcsize(form)))


def _name(file: BinaryIO) -> str:
    (length,) = _read(file, "Q")
    if length > LONGEST_NAME:
        raise ValueError("a name is too long")
    name = file.read(length)
    if len(name) < length:
        raise ValueError("it is cut short")
    return name.decode()


def _pass_over_tensor(file: BinaryIO) -> None:
    magic, _, _, _, axes, _ = _read(file, "QQiiiI")
    if magic != TENSOR_MAGIC or not 0 <= axes <= MOST_AXES:
        raise ValueError("a tensor does not begin as TVM's do")
    *_, size = _read(file, f"{axes}qq")
    if size < 0:
        raise ValueError("a tensor has no size")
    file.seek(size, os.SEEK_CUR)
