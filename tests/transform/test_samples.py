"""``grid_sample`` in float16, and with reflection in an image of one row."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import tvm

from tests.transform.nets import run
from tests.tune.graphs import graph
from tvmake.frontend.relax_fixes import lift_constants
from tvmake.quantize.precision import PrecisionConfig
from tvmake.transform.graph import transform
from tvmake.transform.options import TransformRequest

op = tvm.relax.op

SQUARE = np.random.default_rng(1).standard_normal((5, 5)).astype("float32") / 2

IMAGE, GRID = ((1, 2, 4, 5), "float32"), ((1, 2, 3, 3), "float32")


def sampled(method: str, grid: np.ndarray) -> Callable[..., Any]:
    def expression(x: Any) -> Any:
        options = {"method": method, "layout": "NCHW", "padding_mode": "zeros", "align_corners": True}
        return op.add(
            op.image.grid_sample(op.matmul(x, tvm.relax.const(SQUARE)), tvm.relax.const(grid), **options),
            tvm.relax.const(1.0),
        )

    return expression


@pytest.mark.parametrize("method", ["bilinear", "bicubic", "nearest"])
def test_operators_after_grid_sample_are_computed_in_float16(method: str):
    rng = np.random.default_rng(0)
    image, grid = (rng.uniform(-1, 1, shape).astype("float32") for shape, _ in (IMAGE, GRID))
    made = transform(
        *lift_constants(graph(sampled(method, grid), IMAGE)),
        TransformRequest(precision=PrecisionConfig(base="float16")),
    )
    coordinates = torch.from_numpy(grid).permute(0, 2, 3, 1)
    product = torch.from_numpy(image @ SQUARE)
    expected = torch.nn.functional.grid_sample(product, coordinates, method, align_corners=True) + 1
    np.testing.assert_allclose(run(made, image), expected.numpy(), atol=5e-3)


@pytest.mark.parametrize("method", ["bilinear", "bicubic", "nearest"])
def test_an_image_of_one_row_is_repeated_for_reflection(method: str):
    row = np.random.default_rng(2).standard_normal((1, 2, 1, 5)).astype("float32")
    coordinates = np.random.default_rng(3).uniform(-2, 2, (1, 3, 3, 2)).astype("float32")
    options = {"padding_mode": "reflection", "align_corners": True}
    grid = tvm.relax.const(coordinates.transpose(0, 3, 1, 2).copy())
    module = graph(
        lambda x: op.image.grid_sample(x, grid, method=method, layout="NCHW", **options), (row.shape, "float32")
    )
    made = transform(*lift_constants(module), TransformRequest(precision=PrecisionConfig(base="float32")))
    sampled_row = torch.nn.functional.grid_sample(
        torch.from_numpy(row), torch.from_numpy(coordinates), method, **options
    )
    np.testing.assert_allclose(run(made, row), sampled_row.numpy(), atol=1e-5)


@pytest.mark.parametrize("method", ["bilinear", "nearest"])
def test_a_volume_of_one_slice_is_repeated_for_reflection(method: str):
    volume = np.random.default_rng(2).standard_normal((1, 2, 1, 4, 5)).astype("float32")
    coordinates = np.random.default_rng(3).uniform(-2, 2, (1, 2, 3, 3, 3)).astype("float32")
    options = {"padding_mode": "reflection", "align_corners": True}
    grid = tvm.relax.const(coordinates.transpose(0, 4, 1, 2, 3).copy())
    module = graph(
        lambda x: op.image.grid_sample(x, grid, method=method, layout="NCDHW", **options), (volume.shape, "float32")
    )
    made = transform(*lift_constants(module), TransformRequest(precision=PrecisionConfig(base="float32")))
    sampled_volume = torch.nn.functional.grid_sample(
        torch.from_numpy(volume), torch.from_numpy(coordinates), method, **options
    )
    np.testing.assert_allclose(run(made, volume), sampled_volume.numpy(), atol=1e-5)
