"""Writes at indices, against PyTorch."""

import numpy as np
import pytest
import torch
from torch import nn

from tests.frontend.torch.running import Cases, Of
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.importer import read

IMAGE = torch.arange(2 * 4 * 5 * 6).reshape(2, 4, 5, 6).sin()
COUNT = (IMAGE > 0.3).sum()
ROWS, COLUMNS = torch.tensor([0, 1, 1, -1]), torch.tensor([2, -2, 0, 1])

MATRIX = torch.arange(36).reshape(6, 6).cos()
F = nn.functional


def put(*index, values=1.5):
    def write(x):
        result = x * 2
        result[index] = values if isinstance(values, float) else values(x)
        return result

    return write


def indices(x, count=4):
    return (x.abs() * 97).long() % count


def put_slices(*slices):
    def write(x):
        result = x * 2
        for index in slices:
            result[index] = x[index] - 3
        return result

    return write


def into_diagonals(*axes, change=lambda view: view.mul_(-3)):
    def write(x):
        result = x * 2
        change(result.diagonal(*axes))
        return result

    return write


WRITES = {
    "a diagonal": into_diagonals(0, 2, 3),
    "a diagonal above": into_diagonals(2, 2, 3, change=lambda view: view.zero_()),
    "a diagonal below, of axes apart": into_diagonals(-1, 3, 1, change=lambda view: view.add_(view.flip(-1))),
    "the diagonal of a matrix": lambda x: (x[0, :, 0] * 2).fill_diagonal_(0.5),
    "the diagonals of a tall matrix": lambda x: x.reshape(40, 6).clone().fill_diagonal_(0.5, wrap=True),
    "slices": put_slices((..., slice(1, 4), slice(None)), (..., slice(-2, None))),
    "steps": put_slices((..., slice(1, None, 2), slice(None, None, 2)), (slice(None), slice(0, 3, 3))),
    "one axis": put(slice(None), ROWS),
    "pairs after an axis": put(slice(None), ROWS, COLUMNS),
    "pairs at the end": put(slice(None), slice(None), ROWS, COLUMNS, values=lambda x: x[:, :, 0, :4] * 3),
    "pairs first": put(ROWS % 2, COLUMNS % 4, values=lambda x: x[0, 0]),
    "pairs with an axis between": put(
        ROWS % 2, slice(None), COLUMNS, values=lambda x: x[0, :, 0, :1] + torch.ones(4, 4, 1)
    ),
    "an index of two axes": put(slice(None), torch.tensor([[0, 1], [2, 3]]), values=lambda x: x[:, :1, None] - 1),
    "every axis": put(ROWS % 2, ROWS % 4, COLUMNS % 5, COLUMNS % 6),
    "summed up": lambda x: x.index_put((torch.tensor([0, 0, 1]),), x[:1] * 2, accumulate=True),
    "index_add": lambda x: torch.zeros(2, 3, 5, 6).index_add(1, torch.tensor([0, 2, 2, 1]), x),
    "index_copy": lambda x: x.index_copy(3, torch.tensor([5, 0]), x[..., 2:4] * 9),
    "a mask": lambda x: x.index_put((x > 0.3,), torch.tensor(7.0)),
    "a mask over axes": lambda x: x.index_put((x[:, :, 0, 0] > 0,), torch.tensor(7.0)),
    "a slice of values by a mask": lambda x: x.index_put((x[:, :, 0, 0] > 0,), x[0, 0] * 2),
    "a row of values, broadcast": lambda x: x.index_put((x[:, :, 0, 0] > 0,), x[:1, 0, 0] * 2),
    "a mask behind an axis": lambda x: put(slice(None), x[0, :, 0, 0] > 0, values=lambda _: torch.tensor(7.0))(x),
    "a slice of values by a mask behind an axis": lambda x: put(
        slice(None), x[0, :, :, 0] > 0, values=lambda x: x[0, 0, 0] * 2
    )(x),
    "masked values, changed": lambda x: put(x > 0, values=lambda y: y[x > 0].exp() * 2 - 1)(x),
    "masked values of another tensor": lambda x: put(x > 0, values=lambda _: x.flip(0)[x > 0])(x),
    "rows that a mask selects, through a layer": lambda x: put(
        x[..., 0] > 0, values=lambda y: torch.relu(F.linear(x[x[..., 0] > 0], MATRIX, MATRIX[0]))
    )(x),
    "rows that a mask selects, and a weight of one row": lambda x: put(
        x[..., 0] > 0, values=lambda y: y[x[..., 0] > 0] + MATRIX[:1]
    )(x),
    "masked_scatter": lambda x: x.masked_scatter(x > 0, x.flip(0) * 5),
    "scatter": lambda x: torch.zeros(2, 7, 5, 6).scatter(
        1, torch.arange(4).reshape(1, 4, 1, 1).expand(2, 4, 5, 6) * 2 % 7, x
    ),
    "scatter, fewer indices": lambda x: x.scatter(
        1, torch.tensor([[3, 1]]).reshape(1, 2, 1, 1).expand(1, 2, 3, 6), x * 3
    ),
    "scatter of a value": lambda x: x.scatter(3, indices(x[..., :2], 6), 4.0),
    "scatter_add": lambda x: torch.ones(2, 4, 5, 6).scatter_add(1, indices(x), x),
    "scatter_reduce, sum": lambda x: x.scatter_reduce(2, indices(x, 5), x * x, "sum"),
    "scatter_reduce, amax": lambda x: x.scatter_reduce(2, indices(x, 5), x * x, "amax"),
    "scatter_reduce, mean": lambda x: x.scatter_reduce(2, indices(x, 5), x * x, "mean"),
    "scatter_reduce, mean without the previous values": lambda x: x.scatter_reduce(
        2, indices(x, 3), x * x, "mean", include_self=False
    ),
    "scatter_reduce, amin without the previous values": lambda x: x.scatter_reduce(
        1, indices(x, 2), x * x, "amin", include_self=False
    ),
    "scatter_reduce, mean of integers": lambda x: (
        (x * 9).long().scatter_reduce(2, indices(x, 3), (x * 70).long(), "mean", include_self=False).float()
    ),
    "scatter_reduce, amax of integers": lambda x: (
        (x * 9).long().scatter_reduce(2, indices(x, 3), (x * 70).long(), "amax", include_self=False).float()
    ),
    "folded": lambda x: nn.functional.fold(
        nn.functional.unfold(x, 3, padding=1, stride=2), (5, 6), 3, padding=1, stride=2
    ),
    "one_hot": lambda x: nn.functional.one_hot(x.argmax(1), 4).float(),
    "select_scatter": lambda x: x.select_scatter(x[:, 1] * 2, 1, 3),
    "several values behind a mask": lambda x: x.index_put((x > 0.3,), x.flatten()[: int(COUNT)]),
    "unpooled": lambda x: nn.functional.max_unpool2d(*nn.functional.max_pool2d(x, 2, return_indices=True), 2),
}


CASES = Cases(WRITES, IMAGE)


@pytest.mark.parametrize("name", WRITES)
def test_a_write_equals_pytorch(name: str):
    np.testing.assert_allclose(CASES.outputs(name), CASES.expected(name), rtol=1e-5, atol=1e-5)


DYNAMIC = {
    "scatter, fewer indices": WRITES["scatter, fewer indices"],
    "scatter of a value": WRITES["scatter of a value"],
    "scatter_add": lambda x: torch.ones(x.shape[0], 4, 5, 6).scatter_add(1, indices(x), x),
    "scatter_add over the batch": lambda x: torch.zeros(7, 4, 5, 6).scatter_add(0, indices(x, 7), x),
    "scatter_add beside the batch": lambda x: torch.zeros(4, x.shape[0], 5, 6).scatter_add(
        0, indices(x.transpose(0, 1)), x.transpose(0, 1)
    ),
    "scatter_reduce, mean": WRITES["scatter_reduce, mean"],
    "pairs after an axis": WRITES["pairs after an axis"],
    "pairs with an axis between": lambda x: put(torch.arange(x.shape[0]), slice(None), indices(x[:, 0, 0, 0], 5))(x),
    "index_add": lambda x: torch.zeros(3, x.shape[0]).index_add(0, torch.tensor([0, 2, 2, 1]), x[:, :, 0, 0].T),
}


DYNAMIC_CASES = Cases(
    DYNAMIC,
    IMAGE,
    dynamic_shapes=({0: torch.export.Dim("n", min=2, max=64)},),
    others=[(torch.cat([IMAGE.cos(), IMAGE, IMAGE.flip(1)])[:5],)],
)


@pytest.mark.parametrize("name", DYNAMIC)
def test_a_write_with_a_dynamic_batch_equals_pytorch(name: str):
    for sample in range(len(DYNAMIC_CASES.samples)):
        (output,) = DYNAMIC_CASES.outputs(name, sample)
        (expected,) = DYNAMIC_CASES.expected(name, sample)
        assert np.allclose(output, expected, atol=1e-5)


@pytest.mark.parametrize("values", [lambda x: x[x < 0][:3], lambda x: x.flip(0)[x.flip(0) > 0]])
def test_values_of_another_mask_are_refused(values):
    program = torch.export.export(
        Of(lambda x: put(x > 0, values=values)(x)).eval(), (torch.tensor([1.0, -1, 1, 1, -2, -3]),)
    )
    with pytest.raises(InputError, match="depends on the data"):
        read(program, ImportOptions(source="net.pt2"))
