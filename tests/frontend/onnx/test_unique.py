"""Distinct elements and slices, the indices of their first occurrence, the inverse and the counts agree with ONNX Runtime."""

import numpy as np
import pytest
from onnx import helper

from tests.frontend.compiled import run_compiled
from tests.frontend.onnx.models import FLOAT, INT64, model, read, runtime, save

OUTPUTS = ["values", "indices", "inverse", "counts"]


@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("is_sorted", [0, 1])
def test_distinct_slices_agree_with_onnx_runtime(tmp_path, axis, is_sorted):
    attributes = {"sorted": is_sorted, **({} if axis is None else {"axis": axis})}
    layer = helper.make_node("Unique", ["x"], OUTPUTS, **attributes)
    proto = model([layer], {"x": (INT64 if axis == 0 else FLOAT, ["n", 3])}, OUTPUTS)
    imported = read(save(tmp_path / "m.onnx", proto))
    for rows in (1, 2, 9, 60):
        dtype = np.int64 if axis == 0 else np.float32
        x = np.random.default_rng(rows).integers(-2, 2, (rows, 3)).astype(dtype)
        for result, expected in zip(run_compiled(imported, [x]), runtime(proto, [x]), strict=True):
            np.testing.assert_array_equal(result, expected)


def test_the_number_of_distinct_values_is_that_of_the_rows(tmp_path):
    nodes = [
        helper.make_node("Unique", ["x"], ["values"]),
        helper.make_node("Shape", ["values"], ["count"]),
        helper.make_node("ConstantOfShape", ["count"], ["zeros"]),
    ]
    proto = model(nodes, {"x": (FLOAT, [6])}, ["count", "zeros"])
    imported = read(save(tmp_path / "m.onnx", proto))
    x = np.array([3, 1, 1, 3, 2, 1], np.float32)
    count, zeros = run_compiled(imported, [x])
    assert count.tolist() == [3] and zeros.tolist() == [0, 0, 0]
