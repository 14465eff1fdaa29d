import numpy as np
import pytest

from tvmake.artifact.signature import Signature, TensorSpec
from tvmake.errors import InputError
from tvmake.validate.samples import concrete_shape, numpy_dtype, random_samples, random_tensor


def spec(name="x", shape=(2, 3), dtype="float32", range=None) -> TensorSpec:
    return TensorSpec(name=name, relax_name=name, shape=shape, dtype=dtype, range=range)


def signature(*specs: TensorSpec) -> Signature:
    return Signature(inputs=specs, outputs=())


def test_the_same_seed_gives_the_same_inputs_and_another_seed_others():
    one, same, other = (next(random_samples(signature(spec()), 1, seed)) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one["x"], same["x"])
    assert (one["x"] != other["x"]).all()


def test_values_are_pinned_because_reference_sets_must_not_change_with_numpy():
    values = random_tensor(spec(shape=(3,)), number=1, seed=7)
    np.testing.assert_array_equal(values, np.array([-0.6015608906745911, 0.6257919669151306, -1.8634105920791626], "f"))


def test_an_inputs_values_do_not_depend_on_the_other_inputs_or_the_count():
    alone = list(random_samples(signature(spec("x")), 2))
    among = list(random_samples(signature(spec("a"), spec("x"), spec("b")), 5))
    for mine, theirs in zip(alone, among, strict=False):
        np.testing.assert_array_equal(mine["x"], theirs["x"])
    assert (among[0]["a"] != among[0]["b"]).all()


def test_samples_differ_from_one_another():
    first, second = random_samples(signature(spec(shape=(50,))), 2)
    assert (first["x"] != second["x"]).all()


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "bfloat16", "bool", "int8", "uint8", "int32", "int64", "uint64"]
)
def test_shape_and_dtype_are_exactly_the_signatures(dtype):
    values = random_tensor(spec(shape=(2, 5), dtype=dtype))
    assert values.shape == (2, 5)
    assert values.dtype.name == dtype


def test_a_scalar_input_is_an_array_of_no_dimensions():
    for dtype in ("float32", "int64", "bool"):
        values = random_tensor(spec(shape=(), dtype=dtype))
        assert isinstance(values, np.ndarray)
        assert values.shape == ()


def test_floats_are_standard_normal_and_clipped():
    values = random_tensor(spec(shape=(100_000,)))
    assert abs(values.mean()) < 0.02
    assert 0.95 < values.std() < 1.0
    assert np.abs(values).max() == 2.5


def test_floats_stay_in_the_range_of_the_signature():
    values = random_tensor(spec(shape=(10_000,), range=(0.0, 1.0)))
    assert 0 <= values.min() < 0.01
    assert 0.99 < values.max() <= 1


def test_integers_reach_both_ends_of_their_range_and_nothing_beyond():
    values = random_tensor(spec(shape=(1000,), dtype="int64", range=(0, 9)))
    assert set(values.tolist()) == set(range(10))


def test_wide_integers_without_a_range_are_zero_or_one_because_they_may_be_indices():
    assert set(random_tensor(spec(shape=(100,), dtype="int64")).tolist()) == {0, 1}


@pytest.mark.parametrize(("dtype", "low", "high"), [("int8", -128, 127), ("uint8", 0, 255)])
def test_quantised_inputs_use_their_whole_range(dtype, low, high):
    values = random_tensor(spec(shape=(10_000,), dtype=dtype))
    assert (values.min(), values.max()) == (low, high)


@pytest.mark.parametrize("range", [(0.2, 0.8), (0, 300), (-1, 5)])
def test_a_range_that_the_type_cannot_hold_is_an_input_error(range):
    with pytest.raises(InputError, match=r"inputs: {x: {range: "):
        random_tensor(spec(dtype="uint8", range=range))


def test_dynamic_dimensions_take_their_given_extent_or_one():
    dynamic = spec(shape=("N", 3, "H", "2*H + 1", "unk__6.b"))
    assert concrete_shape(dynamic, {"H": 7}) == (1, 3, 7, 15, 1)
    assert random_tensor(dynamic, dims={"H": 7, "N": 2}).shape == (2, 3, 7, 15, 1)
    with pytest.raises(InputError, match="cannot work out the extent"):
        concrete_shape(spec(shape=("Max(1, s0)",)))


def test_a_dtype_without_numbers_is_an_input_error():
    with pytest.raises(InputError, match="x: cannot generate values of type string"):
        numpy_dtype(spec(dtype="string"))
