"""How states begin, and snapshots of them."""

import json

import ml_dtypes
import numpy as np
import pytest

from tests.provenance.examples import manifest_of
from tvmake.artifact.manifest import Manifest
from tvmake.artifact.signature import Signature, StateSpec, TensorSpec
from tvmake.artifact.states import MAGIC, initial_states, read_snapshot, write_snapshot
from tvmake.errors import InputError


def spec(name: str, *shape: int | str, dtype: str = "float32") -> TensorSpec:
    return TensorSpec(name=name, relax_name=name, shape=shape, dtype=dtype)


def state(
    name: str, shape: tuple[int | str, ...], following: tuple[int | str, ...], dtype: str = "float32"
) -> StateSpec:
    following_spec = spec(f"next {name}", *following, dtype=dtype)
    return StateSpec(**spec(name, *shape, dtype=dtype).model_dump(), next=following_spec, places=(0, 0))


def test_states_begin_as_zeros_in_the_sizes_of_the_inputs_else_in_their_smallest():
    signature = Signature(
        inputs=(spec("x", "b", 4),),
        outputs=(spec("y", "b"),),
        states=(
            state("fixed", (2, 3), (2, 3), "int64"),
            state("of the batch", ("b", 5), ("b", 5)),
            state("a cache", ("b", "past", 8), ("b", "past + 1", 8)),
            state("a window", ("width",), ("width + 1",)),
            state("of another batch", ("rows", 2), ("rows", 2), "bfloat16"),
            state("twice a cache", ("2*past",), ("2*past + 2",)),
        ),
        bounds={"width": (3, None)},
    )
    begin = initial_states(signature, {"x": np.ones((7, 4), "float32")})
    assert {name: (array.shape, str(array.dtype)) for name, array in begin.items()} == {
        "fixed": ((2, 3), "int64"),
        "of the batch": ((7, 5), "float32"),
        "a cache": ((7, 0, 8), "float32"),
        "a window": ((3,), "float32"),
        "of another batch": ((1, 2), "bfloat16"),
        "twice a cache": ((0,), "float32"),
    }
    assert not any(array.any() for array in begin.values())


def manifest(model: str = "m") -> Manifest:
    signature = Signature(
        inputs=(spec("x", 1),),
        outputs=(spec("y", 1),),
        states=(state("h", (2, "n"), (2, "n + 1")), state("c", (3,), (3,), "bfloat16")),
    )
    return manifest_of({}, (model, "float32", "cpu"), signature=signature)


VALUES = [np.arange(6, dtype="float32").reshape(2, 3), np.array([1, -2, 3], ml_dtypes.bfloat16)]


def test_a_snapshot_is_restored_bit_for_bit_and_has_equal_bytes():
    taken = write_snapshot(manifest(), VALUES)
    assert taken == write_snapshot(manifest(), [np.asfortranarray(VALUES[0]), VALUES[1]])
    restored = read_snapshot(manifest(), taken)
    assert restored is not None
    for before, after in zip(VALUES, restored, strict=True):
        assert (before.dtype, before.shape, before.tobytes()) == (after.dtype, after.shape, after.tobytes())


def test_states_that_have_not_begun_have_a_snapshot():
    assert read_snapshot(manifest(), write_snapshot(manifest(), None)) is None


def forged(**changes: object) -> bytes:
    line, _, data = write_snapshot(manifest(), VALUES).removeprefix(MAGIC).partition(b"\n")
    return MAGIC + json.dumps({**json.loads(line), **changes}).encode() + b"\n" + data


@pytest.mark.parametrize(
    ("snapshot", "problem"),
    [
        (b"", "not a snapshot"),
        (b"text", "not a snapshot"),
        (MAGIC, "not a snapshot"),
        (MAGIC + b"[]\n", "not a snapshot"),
        (MAGIC + b"[" * 100_000 + b"\n", "not a snapshot"),
        (write_snapshot(manifest(), VALUES)[:-1], "damaged"),
        (write_snapshot(manifest(), VALUES) + b"x", "damaged"),
        (write_snapshot(manifest(model="another"), VALUES), "of another package"),
        (forged(states=[]), "does not have the package's states"),
        (forged(states=[{"name": "h", "dtype": "float32", "shape": [2, 3]}]), "does not have the package's states"),
        (forged(states="h"), "not a snapshot"),
    ],
)
def test_what_is_no_snapshot_of_the_package_is_refused(snapshot: bytes, problem: str):
    with pytest.raises(InputError) as refused:
        read_snapshot(manifest(), snapshot)
    assert problem in refused.value.problem
