"""Links between the functions of a package: names, values of states and inputs, and what does not fit."""

import numpy as np
import pytest

from tvmake.artifact.links import link_values, resolve_links, resolve_names
from tvmake.artifact.signature import Signature, StateSpec, TensorSpec
from tvmake.artifact.states import StateKey
from tvmake.errors import InputError


def tensor(name: str, *shape: int | str, dtype: str = "float32") -> TensorSpec:
    return TensorSpec(name=name, relax_name=name.replace(".", "_"), shape=shape, dtype=dtype)


def state(name: str, *shape: int | str, **changes: object) -> StateSpec:
    spec = tensor(name, *shape, dtype=str(changes.pop("dtype", "float32")))
    return StateSpec(**spec.model_dump(), next=spec, **changes)


ENCODE = Signature(
    inputs=(tensor("x", 4),),
    outputs=(tensor("y", 1, 4), *(tensor(f"present.{layer}.key", 1, "t", 2) for layer in range(2))),
)
DECODE = Signature(
    inputs=(tensor("ids", 1, 1, dtype="int64"), tensor("past.1.key", 1, "s", 2)),
    outputs=(tensor("logits", 1, 8),),
    states=(state("past.0.key", 1, "past", 2),),
)
SIGNATURES = {"encode": ENCODE, "decode": DECODE}


def test_numbers_match_those_of_outputs():
    links = resolve_links({"encode": {"present.%d.key": "past.%d.key"}}, SIGNATURES)
    assert links == {"encode": {"present.0.key": "past.0.key", "present.1.key": "past.1.key"}}


@pytest.mark.parametrize(
    ("links", "problem"),
    [
        ({"encod": {}}, "links.encod: there is no function 'encod'"),
        ({"encode": {"z": "past.0.key"}}, "'encode' has no output 'z'"),
        ({"encode": {"y": "past.2.key"}}, "no other function has an input or a state 'past.2.key'"),
        ({"encode": {"y": "x"}}, "no other function has an input or a state 'x'"),
        ({"encode": {"y": "past.%d.key"}}, "different numbers of %d"),
        ({"encode": {"y": "ids"}}, r"'y' is float32\[1, 4\], and 'ids' of 'decode' takes int64\[1, 1\]"),
        ({"encode": {"y": "past.0.key"}}, r"takes float32\[1, 'past', 2\]"),
    ],
)
def test_links_without_an_output_or_an_input_that_fits_are_refused(links: dict[str, dict[str, str]], problem: str):
    with pytest.raises(InputError, match=problem):
        resolve_links(links, SIGNATURES)


def test_names_of_states_are_those_of_functions():
    assert resolve_names(["past.%d.key"], SIGNATURES) == ("past.0.key",)
    with pytest.raises(InputError, match="no function has a state 'h'"):
        resolve_names(["h"], SIGNATURES)


def test_a_value_is_kept_for_each_function_as_a_constant():
    value = np.ones((1, 3, 2), "float32")
    (kept,) = link_values("past.0.key", value, SIGNATURES).items()
    assert kept[0] == StateKey("past.0.key", "float32", (1, None, 2))
    value[:] = 2
    assert not kept[1].flags.writeable
    np.testing.assert_array_equal(kept[1], 1)
    (owned,) = link_values("past.0.key", value, SIGNATURES, ["past.0.key"])
    assert owned.owner == "decode"


BUFFERS = Signature(
    inputs=(),
    outputs=(),
    states=(
        state("past.0.key", 1, 8, 2, source_shapes=((1, "past", 2), (1, "past + 1", 2))),
        state("length_of_past.0.key", "past", dtype="int8"),
    ),
    bounds={"past": (0, 6)},
)


def test_a_buffer_gets_the_rows_and_their_number():
    value = np.arange(6, dtype="float32").reshape(1, 3, 2)
    buffer, length = link_values("past.0.key", value, {"decode": BUFFERS}).values()
    assert buffer.shape == (1, 8, 2)
    np.testing.assert_array_equal(buffer[:, :3], value)
    assert not buffer[:, 3:].any()
    assert length.shape == (3,)


def test_a_separate_buffer_has_its_own_number_of_rows():
    assert resolve_names(["past.%d.key"], {"decode": BUFFERS}) == ("past.0.key", "length_of_past.0.key")


def test_more_rows_than_a_buffer_takes_are_refused():
    with pytest.raises(InputError, match="would have past 7, and the package takes up to 6"):
        link_values("past.0.key", np.zeros((1, 7, 2), "float32"), {"decode": BUFFERS})


def test_a_value_of_another_size_is_refused():
    with pytest.raises(InputError, match=r"takes \[1, 'past', 2\], and another function gave it as \[2, 3, 2\]"):
        link_values("past.0.key", np.zeros((2, 3, 2), "float32"), SIGNATURES)
