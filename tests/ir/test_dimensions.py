"""Dimensions are numbers, or are estimated."""

import pytest
import tvm

from tvmake.ir.dimensions import LARGEST_TYPICAL, TYPICAL_EXTENT, estimate_extent, is_known

N, M = tvm.tirx.Var("n", "int64"), tvm.tirx.Var("m", "int64")


@pytest.mark.parametrize("extent", [7, tvm.tirx.const(7, "int64")], ids=["Python's", "TVM's"])
def test_a_number_is_known_and_its_own_estimate(extent):
    assert is_known(extent)
    assert estimate_extent(extent) == 7


@pytest.mark.parametrize(
    ("extent", "estimate"),
    [
        pytest.param(N, TYPICAL_EXTENT, id="a dimension"),
        pytest.param((N - 1) // 2 + 1, TYPICAL_EXTENT // 2, id="half of one"),
        pytest.param(N + M, 2 * TYPICAL_EXTENT, id="two together"),
        pytest.param(N * M, LARGEST_TYPICAL, id="a product"),
        pytest.param(N - 300, 1, id="less than nothing"),
    ],
)
def test_a_dynamic_dimension_is_estimated(extent, estimate):
    assert not is_known(extent)
    assert estimate_extent(extent) == estimate


def test_an_uncomputable_expression_is_estimated_as_a_typical_dimension():
    assert estimate_extent(tvm.tirx.call_extern("int64", "elsewhere", N)) == TYPICAL_EXTENT
