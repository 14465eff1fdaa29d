"""Tables of converters."""

import pytest

from tvmake.frontend.lowering.tables import merge_tables


def test_tables_are_merged_in_order():
    assert list(merge_tables({"b": 1}, {}, {"a": 2}).items()) == [("b", 1), ("a", 2)]


def test_an_operator_in_two_tables_is_refused():
    with pytest.raises(ValueError, match=r"two tables have Conv, Relu"):
        merge_tables({"Relu": 1, "Conv": 2}, {"Add": 3}, {"Conv": 4, "Relu": 5})
