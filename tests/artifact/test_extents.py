"""Sizes of dynamic dimensions, against bounds and each other."""

import pytest

from tvmake.artifact.extents import check_extents, describe_bounds
from tvmake.artifact.signature import Signature, TensorSpec
from tvmake.errors import InputError


def spec(name: str, *shape: int | str) -> TensorSpec:
    return TensorSpec(name=name, relax_name=name, shape=shape, dtype="float32")


SIGNATURE = Signature(
    inputs=(
        spec("ids", "batch", "length"),
        spec("past", "batch", "past", 8),
        spec("mask", "batch", "past + length"),
        spec("rate"),
    ),
    outputs=(),
    bounds={"length": (1, 512), "past": (0, 64), "batch": (2, None)},
)


@pytest.mark.parametrize(
    "shapes",
    [
        {"ids": (2, 512), "past": (2, 0, 8), "mask": (2, 512)},
        {"ids": (9999, 1), "past": (9999, 64, 8), "mask": (9999, 65)},
        {"mask": (2, 70)},
        {"ids": (2, 512, 1)},
        {},
    ],
    ids=["bounds", "no largest size", "others are not given", "other axes, which others refuse", "nothing"],
)
def test_sizes_within_their_bounds_that_agree_are_taken(shapes: dict):
    check_extents(SIGNATURE, shapes)


@pytest.mark.parametrize(
    ("shapes", "problem"),
    [
        ({"ids": (2, 600)}, "length is 600 in 'ids'; this package takes 1 to 512"),
        ({"ids": (2, 0)}, "length is 0 in 'ids'; this package takes 1 to 512"),
        ({"ids": (1, 7)}, "batch is 1 in 'ids'; this package takes 2 or more"),
        ({"ids": (2, 7), "past": (3, 7, 8)}, "batch is 3 in 'past' and 2 in 'ids'"),
        (
            {"ids": (2, 7), "past": (2, 1, 8), "mask": (2, 9)},
            "past + length is 9 in 'mask' but should be 8 for the other inputs",
        ),
    ],
)
def test_a_size_beyond_its_bounds_or_in_conflict_is_named_with_them(shapes: dict, problem: str):
    with pytest.raises(InputError) as caught:
        check_extents(SIGNATURE, shapes)
    assert (caught.value.where, caught.value.problem) == ("inputs", problem)


def test_dimensions_without_bounds_take_any_size():
    check_extents(SIGNATURE.model_copy(update={"bounds": {}}), {"ids": (0, 100_000)})


def test_a_signature_without_bounds_is_written_as_before():
    assert "bounds" not in SIGNATURE.model_copy(update={"bounds": {}}).model_dump_json()
    assert Signature.model_validate_json(SIGNATURE.model_dump_json()) == SIGNATURE


def test_bounds_in_words():
    assert [describe_bounds(bounds) for bounds in ((1, 512), (0, None), (7, 7))] == ["1 to 512", "0 or more", "7"]


SHAPES = SIGNATURE.model_copy(update={"bounds": {}, "shapes": [{"batch": 1, "length": 16}, {"batch": 8}]})


@pytest.mark.parametrize("shape", [(1, 16), (8, 16), (8, 7)])
def test_sizes_of_one_of_a_packages_shapes_are_taken(shape: tuple[int, int]):
    check_extents(SHAPES, {"ids": shape})


def test_other_sizes_are_refused_with_the_shapes_that_there_are():
    problem = "{batch: 1, length: 17} is none of this package's shapes: {batch: 1, length: 16}, {batch: 8}"
    with pytest.raises(InputError) as refused:
        check_extents(SHAPES, {"ids": (1, 17)})
    assert refused.value.problem == problem


def test_generated_inputs_have_the_first_shape():
    assert SHAPES.default_sizes == {"batch": 1, "length": 16}
