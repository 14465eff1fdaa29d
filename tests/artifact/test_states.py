"""How states begin, and snapshots of them."""

import json

import ml_dtypes
import numpy as np
import pytest

from tvmake.artifact.signature import Signature, StateSpec, TensorSpec
from tvmake.artifact.states import (
    MAGIC,
    PackageStates,
    check_lengths,
    initial_states,
    read_snapshot,
    state_key,
    unshared_states,
    write_snapshot,
)
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


H, C = state("h", (2, "n"), (2, "n + 1")), state("c", (3,), (3,), "bfloat16")


def network(*states: StateSpec) -> Signature:
    return Signature(inputs=(spec("x", 1),), outputs=(spec("y", 1),), states=states)


def states_of(package: str = "a") -> PackageStates:
    return PackageStates.of_network(package * 64, network(H, C))


VALUES = {
    state_key(H): np.arange(6, dtype="float32").reshape(2, 3),
    state_key(C): np.array([1, -2, 3], ml_dtypes.bfloat16),
}


def test_a_snapshot_is_restored_bit_for_bit_and_has_equal_bytes():
    taken = write_snapshot(states_of(), VALUES)
    assert taken == write_snapshot(states_of(), {key: np.asfortranarray(value) for key, value in VALUES.items()})
    restored = read_snapshot(states_of(), taken)
    assert restored.keys() == VALUES.keys()
    for key, before in VALUES.items():
        after = restored[key]
        assert (before.dtype, before.shape, before.tobytes()) == (after.dtype, after.shape, after.tobytes())


def test_a_snapshot_of_a_network_has_the_header_of_earlier_versions():
    line = write_snapshot(states_of(), VALUES).split(b"\n")[1]
    rows = [{"dtype": "float32", "name": "h", "shape": [2, 3]}, {"dtype": "bfloat16", "name": "c", "shape": [3]}]
    assert json.loads(line)["states"] == rows


def test_states_that_have_not_begun_have_a_snapshot():
    assert read_snapshot(states_of(), write_snapshot(states_of(), {})) == {}


def functions() -> PackageStates:
    shared, decimal = state("h", (2, "past"), (2, "total")), state("c", (3,), (3,), "float32")
    return PackageStates.of_functions(
        "f" * 64, {"prefill": network(H), "decode": network(shared, C), "end": network(decimal)}
    )


def test_functions_share_states_of_one_name_type_and_shape_whatever_their_dynamic_dimensions_are_called():
    shared = {(key.name, key.dtype): names for key, names in functions().functions.items()}
    assert shared == {
        ("h", "float32"): ("prefill", "decode"),
        ("c", "bfloat16"): ("decode",),
        ("c", "float32"): ("end",),
    }


def test_a_state_of_one_name_and_other_sizes_is_named():
    def of(rows: int) -> Signature:
        keys = state("keys", (1, rows, 8), (1, rows, 8))
        return network(keys, state("length", ("past",), ("past + 1",), dtype="uint8"))

    assert unshared_states({"prefill": of(32), "decode": of(32)}) == []
    assert unshared_states({"prefill": of(47), "decode": of(32)}) == [
        "the state 'keys' is not shared: it is float32[1, 47, 8] in prefill and float32[1, 32, 8] in decode"
    ]


def test_a_snapshot_of_functions_has_the_states_that_have_begun():
    only_last = {
        key: np.ones(3, "float32") for key in functions().functions if key.dtype == "float32" and key.name == "c"
    }
    for values in ({}, VALUES, {state_key(C): VALUES[state_key(C)]}, only_last):
        restored = read_snapshot(functions(), write_snapshot(functions(), values))
        assert {key: value.tobytes() for key, value in restored.items()} == {
            key: value.tobytes() for key, value in values.items()
        }
    for other in (write_snapshot(states_of("f"), VALUES), write_snapshot(states_of(), VALUES)):
        with pytest.raises(InputError, match=r"does not have the package's states|of another package"):
            read_snapshot(functions(), other)


def forged(**changes: object) -> bytes:
    line, _, data = write_snapshot(states_of(), VALUES).removeprefix(MAGIC).partition(b"\n")
    return MAGIC + json.dumps({**json.loads(line), **changes}).encode() + b"\n" + data


@pytest.mark.parametrize(
    ("snapshot", "problem"),
    [
        (b"", "not a snapshot"),
        (b"text", "not a snapshot"),
        (MAGIC, "not a snapshot"),
        (MAGIC + b"[]\n", "not a snapshot"),
        (MAGIC + b"[" * 100_000 + b"\n", "not a snapshot"),
        (write_snapshot(states_of(), VALUES)[:-1], "damaged"),
        (write_snapshot(states_of(), VALUES) + b"x", "damaged"),
        (write_snapshot(states_of("b"), VALUES), "of another package"),
        (forged(states=[]), "does not have the package's states"),
        (forged(states=[{"name": "h", "dtype": "float32", "shape": [2, 3]}]), "does not have the package's states"),
        (forged(states="h"), "not a snapshot"),
        (forged(states=[{"shape": [2, 3]}, {"shape": [3]}]), "does not have the package's states"),
    ],
)
def test_what_is_no_snapshot_of_the_package_is_refused(snapshot: bytes, problem: str):
    with pytest.raises(InputError) as refused:
        read_snapshot(states_of(), snapshot)
    assert problem in refused.value.problem


def buffers(*groups: str) -> Signature:
    """A function with buffers, of which those of a group (their letters) grow together."""
    kept = [
        state(name, (8,), (8,)).model_copy(update={"source_shapes": ((f"past{n}",), (f"past{n} + 1",))})
        for n, names in enumerate(groups)
        for name in names
    ]
    lengths = [
        state(f"length_of_{min(names)}", (f"past{n}",), (f"past{n} + 1",), "int8").model_copy(update={"places": None})
        for n, names in enumerate(groups)
    ]
    return Signature(inputs=(), outputs=(), states=(*kept, *lengths))


@pytest.mark.parametrize(
    ("left", "right", "separate"),
    [
        (("ab", "cd"), ("ba", "c"), ()),
        (("ab",), ("e",), ()),
        (("ab", "c"), ("bc",), ("a", "b", "c")),
    ],
)
def test_buffers_that_grow_together_in_each_function_are_shared(
    left: tuple[str, ...], right: tuple[str, ...], separate: tuple[str, ...]
):
    check_lengths({"f": buffers(*left), "g": buffers(*right)}, separate)


@pytest.mark.parametrize(
    ("left", "right", "separate", "problem"),
    [
        (
            ("ab", "c"),
            ("bc",),
            (),
            r"'g' keeps one number of rows for 'b', 'c', and 'f' one for 'a', 'b'\n.*\[a, b, c\]",
        ),
        (("abcd",), ("d",), (), r"'g' keeps one number of rows for 'd', and 'f' one for 'a', 'b' and 2 more"),
        (
            ("ab",),
            ("ab",),
            ("a",),
            r"'f' keeps one number of rows for 'a', 'b', and `separate_states` has only 'a'\n.*\[a, b\]",
        ),
    ],
)
def test_buffers_that_grow_with_others_in_another_function_are_refused(
    left: tuple[str, ...], right: tuple[str, ...], separate: tuple[str, ...], problem: str
):
    with pytest.raises(InputError, match=problem):
        check_lengths({"f": buffers(*left), "g": buffers(*right)}, separate)
