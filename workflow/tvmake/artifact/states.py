"""The values of a package's states: those at the beginning, and snapshots.

A snapshot is ``MAGIC``, a line of canonical JSON with the package's digest, the states' names, types and shapes, and the sha256 of
what follows: their elements, row by row and little-endian. The native runtime writes and reads the same (native/package/snapshot.cc).

In a package with several functions, those whose state has the same name, type and shape share it; dynamic dimensions are equal, whatever
their names. Its snapshots also name the functions of each state, and lack the states that have not begun.
"""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvmake.artifact.extents import evaluate_extent
from tvmake.artifact.signature import Signature, StateSpec, TensorSpec, is_arithmetic
from tvmake.artifact.tensor_file import numpy_dtype
from tvmake.errors import InputError
from tvmake.storage.files import canonical_json, digest_bytes

MAGIC = b"TVMAKE-STATE-1\n"
"""The beginning of a snapshot."""


LENGTH = "length_of_"
"""The beginning of the name of such a state as the next."""

LENGTH_DTYPE = "int8"
"""The type of a state whose only axis counts the rows of others (``tvmake.codegen.caches``); its elements mean nothing."""


def is_length(state: StateSpec) -> bool:
    """Whether a state only counts the rows of others."""
    return (
        state.dtype == LENGTH_DTYPE and len(state.shape) == 1 and state.places is None and state.name.startswith(LENGTH)
    )


def length_of(state: StateSpec, signature: Signature) -> StateSpec | None:
    """The state that counts the rows of a buffer; None for others."""
    if state.source_shapes is None:
        return None
    dynamic = set(state.source_shapes[0]) - set(state.shape)
    return next((spec for spec in signature.states if is_length(spec) and spec.shape[0] in dynamic), None)


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


@dataclass(frozen=True)
class StateKey:
    """A state of a package, which its functions may share."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]
    """None for a dynamic dimension."""
    owner: str = ""
    """The function that has it for itself; empty if functions share it."""

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether values of this shape can be the state's."""
        return len(shape) == len(self.shape) and all(
            actual >= 0 if extent is None else actual == extent
            for extent, actual in zip(self.shape, shape, strict=True)
        )


def state_key(state: TensorSpec, owner: str = "") -> StateKey:
    """The key by which functions share a state.

    Args:
        owner: the function, if it has the state for itself.
    """
    shape = tuple(extent if isinstance(extent, int) else None for extent in state.shape)
    return StateKey(state.name, state.dtype, shape, owner)


def unshared_states(signatures: Mapping[str, Signature], separate: Sequence[str] = ()) -> list[str]:
    """A line for each state that has the name of another function's, but another type or shape: each function keeps its own.

    Args:
        signatures: those of a package's functions, by name.
        separate: names of states that each function has for itself, of which there is nothing to report.
    """
    by_name: dict[str, dict[StateKey, tuple[str, StateSpec]]] = {}
    for function, signature in signatures.items():
        for state in signature.states:
            by_name.setdefault(state.name, {}).setdefault(state_key(state), (function, state))
    return [
        f"the state '{name}' is not shared: it is "
        + " and ".join(f"{state.dtype}{list(state.shape)} in {function}" for function, state in kept.values())
        for name, kept in by_name.items()
        if len(kept) > 1 and name not in separate
    ]


def check_lengths(signatures: Mapping[str, Signature], separate: Collection[str] = ()) -> None:
    """Refuse buffers of which functions do not share the number of rows.

    Args:
        signatures: those of a package's functions, by name.
        separate: names of states that each function has for itself.

    Raises:
        InputError: states grow together in one function and not in another, or only some of them are separate.
    """
    seen: dict[StateKey, tuple[str, set[str]]] = {}
    for function, signature in signatures.items():
        together: dict[str, list[StateSpec]] = {}
        for state in signature.states:
            if (length := length_of(state, signature)) is not None:
                together.setdefault(length.name, []).append(state)
        for states in together.values():
            names = {state.name for state in states}
            problem = f"'{function}' keeps one number of rows for {_listed(names)}"
            if (shared := names.difference(separate)) not in (set(), names):
                problem += f", and `separate_states` has only {_listed(names - shared)}"
                raise InputError("states", problem, f"write `separate_states: [{', '.join(sorted(names))}]`")
            for state in states if shared else ():
                first, others = seen.setdefault(state_key(state), (function, names))
                if min(names) != min(others):
                    problem += f", and '{first}' one for {_listed(others)}"
                    remedy = f"let each function have its own: `separate_states: [{', '.join(sorted(names | others))}]`"
                    raise InputError("states", problem, remedy)


def _listed(names: Collection[str]) -> str:
    quoted = [f"'{name}'" for name in sorted(names)]
    return ", ".join(quoted[:2]) + (f" and {len(quoted) - 2} more" if len(quoted) > 2 else "")


def shared_states(signatures: Mapping[str, Signature], separate: Collection[str] = ()) -> dict[str, list[str]]:
    """The states that several functions have, by name, each with these functions."""
    functions = PackageStates.of_functions("", signatures, separate=separate).functions
    return {key.name: list(names) for key, names in functions.items() if len(names) > 1}


@dataclass(frozen=True)
class PackageStates:
    """The states of a package, for snapshots."""

    own_sha256: str
    """The digest of the package's manifest."""
    functions: Mapping[StateKey, tuple[str, ...]]
    """In order; the functions that have each state, none in a package with one network."""

    @classmethod
    def of_network(cls, own_sha256: str, signature: Signature) -> "PackageStates":
        """Those of a package with one network."""
        return cls(own_sha256, {state_key(state): () for state in signature.states})

    @classmethod
    def of_functions(
        cls,
        own_sha256: str,
        signatures: Mapping[str, Signature],
        linked: Collection[str] = (),
        separate: Collection[str] = (),
    ) -> "PackageStates":
        """Those of a package with several functions, by name.

        Args:
            linked: names of inputs that are outputs of other functions.
            separate: names of states that each function has for itself.
        """
        functions: dict[StateKey, tuple[str, ...]] = {}
        for name, signature in signatures.items():
            inputs = [spec for spec in signature.inputs if spec.name in linked]
            for spec in (*signature.states, *inputs):
                key = state_key(spec, name if spec.name in separate else "")
                functions[key] = (*functions.get(key, ()), name)
        return cls(own_sha256, functions)

    def row(self, key: StateKey, shape: Sequence[int]) -> dict[str, Any]:
        """The description of a state in a snapshot."""
        functions = {"functions": list(self.functions[key])} if self.functions[key] else {}
        return {"name": key.name, "dtype": key.dtype, "shape": list(map(int, shape)), **functions}


def write_snapshot(states: PackageStates, values: Mapping[StateKey, np.ndarray]) -> bytes:
    """A snapshot of those states that have begun."""
    arrays = {key: np.ascontiguousarray(values[key]) for key in states.functions if key in values}
    data = b"".join(array.tobytes() for array in arrays.values())
    header = {
        "package": states.own_sha256,
        "states": [states.row(key, array.shape) for key, array in arrays.items()],
        "sha256": digest_bytes(data),
    }
    return MAGIC + canonical_json(header).encode() + b"\n" + data


def read_snapshot(states: PackageStates, snapshot: bytes) -> dict[StateKey, np.ndarray]:
    """The values of the states in a snapshot; the others had not begun.

    Raises:
        InputError: it is none, is damaged, or is another package's.
    """
    line, separator, data = snapshot.removeprefix(MAGIC).partition(b"\n")
    try:
        header = json.loads(line) if snapshot.startswith(MAGIC) and separator else {}
        rows = [dict(row) for row in header["states"]]
        shapes = [tuple(map(int, row["shape"])) for row in rows]
        package, digest = str(header["package"]), str(header["sha256"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError("snapshot", "is not a snapshot of states", "pass what `snapshot()` returned") from None
    if digest_bytes(data) != digest:
        raise InputError("snapshot", "is damaged: its content differs from its own digest", "take another one")
    if package != states.own_sha256:
        raise InputError("snapshot", "is of another package", "restore it in the package that it was taken from")
    known = list(states.functions)
    keys: list[StateKey] = []
    for row, shape in zip(rows, shapes, strict=True):
        while known and (row != states.row(known[0], shape) or not known[0].fits(shape)):
            known.pop(0)  # has not begun
        keys += known[:1]
        del known[:1]
    sizes = [math.prod(shape) * numpy_dtype(key.dtype).itemsize for key, shape in zip(keys, shapes, strict=False)]
    is_partial = keys and len(keys) < len(states.functions) and not all(states.functions.values())
    if len(keys) < len(rows) or is_partial or sum(sizes) != len(data):
        raise InputError("snapshot", "does not have the package's states", "pass what `snapshot()` returned")
    arrays, begin = {}, 0
    for key, shape, size in zip(keys, shapes, sizes, strict=True):
        arrays[key] = np.frombuffer(data, numpy_dtype(key.dtype), math.prod(shape), begin).reshape(shape)
        begin += size
    return arrays
