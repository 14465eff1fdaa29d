"""Arrays as the inputs of a package."""

from collections.abc import Mapping

import numpy as np
import pytest

from tvmake.artifact.signature import Signature, TensorSpec
from tvmake.errors import InputError
from tvmake.running.inputs import match_inputs

DYNAMIC = Signature(
    inputs=tuple(
        TensorSpec(name=name, relax_name=name, shape=("batch", 3), dtype="float32") for name in ("image", "mask")
    ),
    outputs=(),
    bounds={"batch": (1, 8)},
)

SIGNATURE = Signature(inputs=(TensorSpec(name="image", relax_name="image", shape=(1, 3), dtype="float32"),), outputs=())


def test_an_array_that_fits_is_taken_as_it_is():
    array = np.zeros((1, 3), np.float32)
    assert match_inputs(SIGNATURE, {"image": array}, None)["image"] is array


@pytest.mark.parametrize(
    "array",
    [np.ones((1, 3)), np.ones((1, 3), ">f4"), np.asfortranarray(np.ones((3, 1), np.float32)).T, np.ones((1, 6), np.float32)[:, ::2]],
)  # fmt: skip
def test_other_numbers_and_other_orders_in_memory_are_made_to_fit(array: np.ndarray):
    fitted = match_inputs(SIGNATURE, {"image": array}, None)["image"]
    assert fitted.dtype == np.dtype("float32") and fitted.flags.c_contiguous and fitted.tolist() == [[1, 1, 1]]


def test_generated_inputs_have_the_sizes_that_are_asked_for():
    inputs = match_inputs(DYNAMIC, {}, "random", sizes={"batch": 5})
    assert {array.shape for array in inputs.values()} == {(5, 3)}
    beside = match_inputs(DYNAMIC, {"image": np.zeros((4, 3), np.float32)}, "zeros", sizes={"batch": 4})
    assert beside["mask"].shape == (4, 3)


@pytest.mark.parametrize(
    ("sizes", "problem"),
    [
        ({"batch": 9}, "batch is 9 in 'image'; this package takes 1 to 8"),
        ({"length": 2}, "--dim length: the package has no such dynamic dimension\n  it has: batch"),
        ({"batch": 3}, "--dim batch=3: the inputs' files have batch 4"),
    ],
)
def test_sizes_that_the_package_or_other_inputs_do_not_have_are_refused(sizes: Mapping[str, int], problem: str):
    given = {"image": np.zeros((4, 3), np.float32)} if "files" in problem else {}
    with pytest.raises(InputError) as refused:
        match_inputs(DYNAMIC, given, "random", sizes=sizes)
    assert problem in str(refused.value)


def test_indices_beyond_their_table_are_refused():
    spec = TensorSpec(name="ids", relax_name="ids", shape=(1, "length"), dtype="int64", indices=(-50, 49))
    signature = Signature(inputs=(spec,), outputs=())
    for ids in ([], [49, -50], [0]):
        assert match_inputs(signature, {"ids": np.array([ids], np.int64)}, None)["ids"].tolist() == [ids]
    for ids, wrong in (([0, 50, 3], 50), ([0, -51], -51)):
        with pytest.raises(InputError) as refused:
            match_inputs(signature, {"ids": np.array([ids])}, None)
        problem = f"input 'ids': has the index {wrong}, and the table has 50 rows\n  use indices from -50 to 49"
        assert problem in str(refused.value)


def test_a_size_may_be_an_expression_over_dimensions_of_a_later_input():
    """Decoders with a cache: the mask of [past + length] comes before the cache."""
    signature = Signature(
        inputs=(
            TensorSpec(name="ids", relax_name="ids", shape=("length",), dtype="int64"),
            TensorSpec(name="mask", relax_name="mask", shape=("past + length",), dtype="int64"),
            TensorSpec(name="cache", relax_name="cache", shape=("past", 8), dtype="float32"),
        ),
        outputs=(),
    )
    given = {"ids": np.zeros(3, np.int64), "mask": np.ones(8, np.int64), "cache": np.zeros((5, 8), np.float32)}
    assert match_inputs(signature, given, None)["mask"].shape == (8,)
    with pytest.raises(InputError, match="past \\+ length"):
        match_inputs(signature, {**given, "mask": np.ones(7, np.int64)}, None)


@pytest.mark.parametrize(
    ("dtype", "value", "range_"),
    [("int32", 2**40, "the range of int32: -2147483648 to 2147483647"), ("uint8", -1, "the range of uint8: 0 to 255")],
)
def test_a_value_out_of_the_range_of_an_input_is_named_with_its_position(dtype: str, value: int, range_: str):
    signature = Signature(inputs=(TensorSpec(name="ids", relax_name="ids", shape=(1, 4), dtype=dtype),), outputs=())
    with pytest.raises(InputError) as error:
        match_inputs(signature, {"ids": np.array([[5, 6, value, 8]])}, None)
    assert str(error.value) == (
        f"input 'ids': has the value {value} at [0, 2], out of {range_}\n"
        f"  the array is int64; the package takes 'ids' {dtype} [1, 4]"
    )
    assert match_inputs(signature, {"ids": np.array([[5, 6, 7, 8]])}, None)["ids"].dtype == dtype
