"""The values of a package's states: those at the beginning, and snapshots.

A snapshot is ``MAGIC``, a line of canonical JSON with the package's digest, the states' names, types and shapes, and the sha256 of
what follows: their elements, row by row and little-endian. The native runtime writes and reads the same (native/package/snapshot.cc).
"""

import json
import math
from collections.abc import Mapping, Sequence

import numpy as np

from tvmake.artifact.extents import evaluate_extent
from tvmake.artifact.manifest import Manifest
from tvmake.artifact.signature import Signature, is_arithmetic
from tvmake.artifact.tensor_file import numpy_dtype
from tvmake.errors import InputError
from tvmake.storage.files import canonical_json, digest_bytes

MAGIC = b"TVMAKE-STATE-1\n"
"""The beginning of a snapshot."""


def initial_states(signature: Signature, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Zeros for each state, by name.

    Args:
        inputs: those of the first run, by name: a dynamic dimension has their size. One that no input has begins with its smallest
            size if it changes from run to run, as a cache's length does, and is 1 if not, as a batch.
    """
    if not signature.states:
        return {}
    smallest = {name: least for name, (least, _) in signature.bounds.items()}
    sizes: dict[str, int] = {}
    for spec in signature.inputs:
        extents = zip(spec.shape, inputs[spec.name].shape, strict=True)
        sizes |= {extent: size for extent, size in extents if isinstance(extent, str)}

    def size_of(extent: int | str, following: int | str) -> int:
        if isinstance(extent, int):
            return extent
        default = max(1, smallest.get(extent, 1)) if following == extent else smallest.get(extent, 0)
        if extent in sizes or not is_arithmetic(extent):
            return sizes.get(extent, default)
        return evaluate_extent(extent, lambda name: sizes.get(name, smallest.get(name, 0)))

    return {
        state.name: np.zeros(list(map(size_of, state.shape, state.next.shape)), numpy_dtype(state.dtype))
        for state in signature.states
    }


def write_snapshot(manifest: Manifest, values: Sequence[np.ndarray] | None) -> bytes:
    """A snapshot of a package's states; None for states that have not begun."""
    arrays = [np.ascontiguousarray(value) for value in values or ()]
    data = b"".join(array.tobytes() for array in arrays)
    header = {
        "package": manifest.own_sha256,
        "states": [
            {"name": state.name, "dtype": state.dtype, "shape": list(array.shape)}
            for state, array in zip(manifest.signature.states if arrays else (), arrays, strict=True)
        ],
        "sha256": digest_bytes(data),
    }
    return MAGIC + canonical_json(header).encode() + b"\n" + data


def read_snapshot(manifest: Manifest, snapshot: bytes) -> list[np.ndarray] | None:
    """The states' values of a snapshot; None if they had not begun.

    Raises:
        InputError: it is none, is damaged, or is another package's.
    """
    line, separator, data = snapshot.removeprefix(MAGIC).partition(b"\n")
    try:
        header = json.loads(line) if snapshot.startswith(MAGIC) and separator else {}
        known = [
            (str(state["name"]), str(state["dtype"]), tuple(map(int, state["shape"]))) for state in header["states"]
        ]
        package, digest = str(header["package"]), str(header["sha256"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError("snapshot", "is not a snapshot of states", "pass what `snapshot()` returned") from None
    if digest_bytes(data) != digest:
        raise InputError("snapshot", "is damaged: its content differs from its own digest", "take another one")
    if package != manifest.own_sha256:
        raise InputError("snapshot", "is of another package", "restore it in the package that it was taken from")
    expected = [(state.name, state.dtype) for state in manifest.signature.states]
    sizes = [math.prod(shape) * numpy_dtype(dtype).itemsize for _, dtype, shape in known]
    if (known and [entry[:2] for entry in known] != expected) or sum(sizes) != len(data):
        raise InputError("snapshot", "does not have the package's states", "pass what `snapshot()` returned")
    if not known:
        return None
    arrays, begin = [], 0
    for (_, dtype, shape), size in zip(known, sizes, strict=True):
        arrays.append(np.frombuffer(data, numpy_dtype(dtype), math.prod(shape), begin).reshape(shape))
        begin += size
    return arrays
