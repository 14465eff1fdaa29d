"""Tensors in one ``.npz`` with reproducible bytes: inputs and outputs between stages and devices.

Members are ``<kind>/<name>/<number>.npy`` (names percent-encoded, numbers from 00000), stored uncompressed with fixed
time stamps: equal content is equal bytes, whatever zlib is installed. ``numpy.load`` opens such a file.
"""

import io
import tokenize
import zipfile
import zlib
from urllib.parse import quote

import numpy as np

Kind = str
"""``input``, ``output``, ``labels`` or ``truth``."""

DAMAGE = (
    ValueError, TypeError, LookupError, OverflowError, OSError, EOFError, MemoryError, RuntimeError, SyntaxError,
    tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""Exceptions of numpy and zipfile for damaged arrays: numpy parses an array's header as a Python literal."""


def reason(error: Exception) -> str:
    """The message of one of DAMAGE, in a line."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if text.startswith("Object arrays"):
        return "it has Python objects instead of numbers"
    return next(iter(text.strip().splitlines()), type(error).__name__)


def member(kind: Kind, name: str | None, number: int) -> str:
    """The member's name for one tensor of one sample."""
    parts = [kind, *([quote(name, safe="")] if name is not None else []), f"{number:05d}.npy"]
    return "/".join(parts)


def entry(name: str) -> zipfile.ZipInfo:
    """A member with fixed metadata; ZipInfo's own time is 1980-01-01, the mode must not follow the umask."""
    info = zipfile.ZipInfo(name)
    info.external_attr = 0o644 << 16
    return info


def write_array(archive: zipfile.ZipFile, name: str, array: np.ndarray) -> None:
    """Add an array as a member."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array).reshape(array.shape), allow_pickle=False)
    archive.writestr(entry(name), buffer.getvalue())


def check_stored(archive: zipfile.ZipFile) -> None:
    """Refuse an archive from outside that :func:`write_array` would not write: compressed members may unpack to any size.

    Raises:
        ValueError: a member is compressed, or two have the same name.
    """
    names = archive.namelist()
    if len(set(names)) < len(names) or any(info.compress_type != zipfile.ZIP_STORED for info in archive.infolist()):
        raise ValueError("its members are compressed, or two have one name")


def read_array(archive: zipfile.ZipFile, name: str, dtype: str | None = None) -> np.ndarray:
    """Read a member; zipfile checks its CRC.

    Args:
        dtype: the element type for raw bytes; numpy's format stores the bytes of bfloat16 and 8-bit floats without their
            type.

    Raises:
        KeyError: the member is missing.
        One of DAMAGE: it is damaged.
    """
    array = np.lib.format.read_array(io.BytesIO(archive.read(name)), allow_pickle=False)
    if array.dtype.kind == "V" and dtype is not None:
        return array.view(numpy_dtype(dtype))
    return array


def numpy_dtype(name: str) -> np.dtype:
    """TVM's dtype name as a numpy dtype.

    Raises:
        TypeError: neither numpy nor ml_dtypes has it.
    """
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name, name))
