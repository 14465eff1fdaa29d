"""The departure of one computation from another, determined by values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvmake.debug.departure import Departure, Value, difference, first_departure, has_nan, last_computed

RANDOM = np.random.default_rng(0)
SHAPE = (1, 3, 4, 5)


def drawn(shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def chain(arrays: list[np.ndarray]) -> list[Value]:
    """Each computed from the one before."""
    return [Value(f"v{at}", f"op{at}", (f"v{at - 1}",), array) for at, array in enumerate(arrays)]


def test_the_same_values_in_another_order_of_axes_are_found():
    arrays = [drawn() for _ in range(3)]
    channels_last = [array.transpose(0, 2, 3, 1) for array in arrays]
    assert first_departure(chain(channels_last), arrays, 1e-6) is None


def test_what_one_side_alone_computes_is_no_departure():
    arrays = [drawn() for _ in range(4)]
    assert first_departure(chain(arrays), [arrays[0], arrays[3]], 1e-6) is None


def test_the_first_value_that_leads_to_nothing_right_is_named_with_what_it_should_be():
    right = [drawn() for _ in range(4)]
    wrong = [right[0], drawn(), right[2] + np.float32(0.5), drawn()]
    found = first_departure(chain(wrong), right, 1e-3)
    assert found is not None
    assert found.value.name == "v1"  # nothing behind it is found
    found = first_departure(chain([right[0], drawn(), right[2], right[3] * np.float32(1.5)]), right, 1e-3)
    assert found is not None and found.nearest is not None
    assert (found.value.operator, round(found.error, 2)) == ("op3", round(difference(found.value.array, right[3]), 2))
    np.testing.assert_array_equal(found.nearest, right[3])


def test_a_product_is_compared_with_the_factor_that_follows_it():
    start, product = drawn((1, 8)), drawn((1, 8))
    values = [
        Value("start", "a", (), start),
        Value("sums", "int8_matmul", ("start", "weight"), 300 * (product + np.float32(0.02))),
        Value("scaled", "relax.multiply", ("sums", "scale"), product + np.float32(0.02)),
    ]
    found = first_departure(values, [start, product], 1e-3)
    assert found is not None and (found.value.operator, found.value.name) == ("int8_matmul", "scaled")
    assert found.error < 0.1
    np.testing.assert_array_equal(found.nearest, product)
    computed = [*values[:1], Value("scale", "b", ("start",), drawn((1, 8))), *values[1:]]
    found = first_departure(computed, [start, computed[1].array, product], 1e-3)
    assert found is not None and found.error > 0.1  # the scale is not a constant


def test_of_two_branches_the_wrong_one_is_named():
    start, left, right, end = (drawn() for _ in range(4))
    values = [
        Value("start", "a", (), start),
        Value("left", "b", ("start",), left),
        Value("right", "c", ("start",), right + np.float32(1)),
        Value("end", "d", ("left", "right"), end + np.float32(1)),
    ]
    found = first_departure(values, [start, left, right, end], 1e-3)
    assert found is not None and found.value.name == "right"


def test_what_overflows_is_reported_by_the_rest():
    right = 1e5 * drawn()
    with np.errstate(over="ignore"):
        halves = right.astype(np.float16)
    found = first_departure(chain([halves]), [drawn(), right, drawn()], 0.1)
    assert found is not None and found.error == float("inf")
    assert found.nearest is right or np.array_equal(found.nearest, right)


def test_values_that_are_no_numbers_are_equal_where_both_have_them():
    array = np.array([1.0, np.inf, np.nan])
    assert difference(array, array.copy()) == 0
    assert difference(array, np.array([1.0, 2.0, np.nan])) == float("inf")


@given(length=st.integers(2, 12), at=st.integers(0, 11), hidden=st.sets(st.integers(0, 11)))
def test_a_fault_is_named_wherever_it_is_and_whatever_the_other_side_has_fused_away(
    length: int, at: int, hidden: set[int]
):
    at %= length
    right = [drawn((2, 7)) for _ in range(length)]
    wrong = [array if index < at else array + drawn((2, 7)) for index, array in enumerate(right)]
    shown = [array for index, array in enumerate(right) if index not in hidden or index >= at]
    found = first_departure(chain(wrong), shown, 1e-3)
    first = min([at, *(index for index in range(at) if all(one in hidden for one in range(index, at)))])
    assert found is not None and found.value.name == f"v{first}"


@pytest.mark.parametrize(
    "steps, changed, expected",
    [(1, 2, 2), (2, 2, 0), (1, 400, 0)],
    ids=["a few on the edge between two steps", "two steps", "an offset of most"],
)
def test_integers_on_the_edge_between_two_steps_are_reported_from_wrong_ones(steps, changed, expected):
    integers = np.arange(1000, dtype=np.int64).astype(np.uint8) // 2
    others = integers.copy()
    others[:changed] += np.uint8(steps)
    found = first_departure([Value("q", "QuantizeLinear", (), integers)], [others], 1e-4)
    assert found is not None
    assert found.steps == expected


def test_numbers_with_a_fraction_have_no_steps():
    numbers = np.linspace(0, 1, 100)
    found = first_departure([Value("x", "Conv", (), numbers)], [numbers + 0.5], 1e-4)
    assert found is not None
    assert found.steps == 0


def test_what_overflows_as_a_whole_is_reported_to_have_no_numbers():
    value = Value("a", "conv", (), np.full((2, 3), np.inf, np.float16))
    assert Departure(value, None, float("inf")).overflow == "it has values that are not finite; float16 ends at 65504"


def test_what_puts_outputs_together_is_not_named_for_want_of_a_departure():
    made, together = (Value(name, operator, (), np.ones(2)) for name, operator in (("a", "relax.add"), ("b", "Tuple")))
    assert last_computed([made, together]) is made
    assert last_computed([together]) is together


def test_the_infinities_of_a_mask_are_no_nan():
    assert not has_nan(np.array([-np.inf, 1.0]))
    assert not has_nan(np.array([1]))
    assert has_nan(np.array([-np.inf, np.nan]))
