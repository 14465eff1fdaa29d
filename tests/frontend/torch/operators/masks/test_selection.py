"""Operators on elements that a mask selects, against PyTorch. The number of elements depends on the data."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.frontend.torch.running import Cases, Of
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.importer import read

MATRIX = torch.linspace(-1, 1, 24).reshape(6, 4)
EDGES = torch.tensor([[0, 1, 2, 3, 0, 1, 5], [1, 2, 2, 0, 0, 1, 4]])
WEIGHT = torch.linspace(-0.5, 0.5, 12).reshape(3, 4)


def without_loops(edges: Tensor) -> Tensor:
    """Edges between two nodes: a mask that depends on an input."""
    return edges[:, edges[0] != edges[1]]


def nodes(x: Tensor) -> Tensor:
    """Edges that depend on an input, so that they are not constants."""
    return EDGES + (x[0, 0] > 100).long()


def sum_rows(indices: Tensor, rows: Tensor) -> Tensor:
    """Rows, summed by index."""
    return torch.zeros(6, *rows.shape[1:]).index_add(0, indices, rows)


def normalise(x: Tensor) -> Tensor:
    """A graph convolution's norm: loops removed, and one added to each node."""
    edges = torch.cat([without_loops(nodes(x)), torch.arange(6).repeat(2, 1)], 1)
    degrees = torch.zeros(6).scatter_add(0, edges[1], torch.ones(edges.size(1)))
    weights = degrees[edges[0]].rsqrt() * degrees[edges[1]].rsqrt()
    return sum_rows(edges[1], x[edges[0]] * weights[:, None])


def attend(x: Tensor) -> Tensor:
    """Attention over each node's edges: a softmax by groups."""
    start, end = without_loops(nodes(x))
    scores = (x[start] * x[end]).view(-1, 2, 2).sum(-1)
    index = end[:, None].expand(-1, 2)
    largest = torch.full((6, 2), -1e9).scatter_reduce(0, index, scores, "amax")
    powers = (scores - largest[end]).exp()
    sums = torch.zeros(6, 2).scatter_add(0, index, powers)
    return sum_rows(end, x[start].view(-1, 2, 2) * (powers / (sums[end] + 1e-9))[..., None])


def reduce_weights(x: Tensor) -> Tensor:
    """Weights of selected edges, changed by another mask."""
    edges = torch.cat([without_loops(nodes(x)), torch.arange(6).repeat(2, 1)], 1)
    weights = x[edges[0], 0] * 1
    weights[edges[0] == edges[1]] -= 1
    return sum_rows(edges[0], weights)


def route(x: Tensor) -> Tensor:
    """A mixture of experts that selects each expert's rows."""
    weights, chosen = x.softmax(1).topk(2)
    hits = F.one_hot(chosen, 4).permute(2, 1, 0)
    out = torch.zeros_like(x)
    for expert in range(4):
        rank, row = torch.where(hits[expert])
        out.index_add_(0, row, torch.tanh(x[row] * (expert + 1)) * weights[row, rank, None])
    return out


def put_at_indices(x: Tensor) -> Tensor:
    """Elements at negative indices."""
    row, column = torch.where(x > 0)
    out = torch.zeros(6, 4)
    out[row - 6, column] = x[row, column] * 2
    return out


def skip_padding(x: Tensor) -> Tensor:
    """Rows without padding through a layer, and back to their positions."""
    rows = torch.nonzero((x[:, 0] > -0.5).flatten()).flatten()
    out = torch.zeros(6, 3)
    out[rows] = F.layer_norm(F.linear(x[rows], WEIGHT), (3,))
    return out


def index_padding(x: Tensor) -> Tensor:
    """Indices of padding are out of range, and not selected."""
    edges = torch.where(nodes(x) == 5, -7, nodes(x))
    edges = edges[:, (edges >= 0).all(0)]
    return sum_rows(edges[0], x[edges[1]])


def fill(x: Tensor) -> tuple[Tensor, ...]:
    """One value for each selected element: rows, columns, and a mask of two axes that depends on the data."""
    rows, columns, elements = x.clone(), x.clone(), x.reshape(2, 3, 4).clone()
    rows[torch.tensor([True, False, False, True, False, False])] = x[:2] * 3
    columns[:, torch.tensor([False, True, True, False])] = torch.tensor([5.0, 6.0])
    elements[torch.zeros(2, 3) < (x[0, 0] > -100)] = x * 2
    return rows, columns, elements


SELECTIONS: dict[str, Callable[[Tensor], Any]] = {
    "values behind a mask": fill,
    "a graph convolution": normalise,
    "attention over edges": attend,
    "weights of some selected edges": reduce_weights,
    "a selection of a selection": lambda x: sum_rows(*(e := without_loops(nodes(x)))[:, e[0] != 2][0:1], x[e[:, e[0] != 2][1]]),
    "experts": route,
    "negative indices": put_at_indices,
    "sums by index": lambda x: sum_rows((n := torch.nonzero(x > 0))[:, 0], x[n[:, 0]] * n[:, 1:]),
    "rows without padding": skip_padding,
    "indices out of range": index_padding,
    "a maximum by index": lambda x: torch.full((6, 4), -9.0).scatter_reduce(
        0, (e := without_loops(nodes(x)))[0][:, None].expand(-1, 4), x[e[1]], "amax"
    ),
    "a mean by index": lambda x: torch.zeros(6, 4).scatter_reduce(
        0, (e := without_loops(nodes(x)))[0][:, None].expand(-1, 4), x[e[1]], "mean", include_self=False
    ),
    "written at indices": lambda x: torch.zeros(6, 4).scatter(0, torch.where(x[:, 0] > 0)[0][:, None].expand(-1, 4), 3.0),
    "sums": lambda x: (x[x > 0].sum(), x[x[:, 0] > -0.5].sum(0), torch.masked_select(x, x[:, :1] > 0).sum()),
    "means": lambda x: (x[x > 0].mean(), x[x[:, 0] > -0.5].mean(0), x[:, x[0] < 0].mean()),
    "extremes": lambda x: (x[x > 0].max(), x[x < 0].amin(), x[x[:, 0] > -0.5].max(0)[0], (x * 9).int()[x > 0].max()),
    "products and matmuls": lambda x: (x[x[:, 0] > 0].prod(0), (y := x[x[:, 0] > -0.5]).t() @ y, (y @ x.t()).sum(0)),
    "booleans": lambda x: ((x[x > 0] > 0.5).any(), (x[x > 0] > 0.5).all()),
    "along the selected axis": lambda x: (
        ((y := x[x[:, 0] > -0.5]).softmax(0) * y).sum(0), y.cumsum(0).sum(0), (y.log_softmax(0)).amin(0)
    ),
    "rows of tokens": lambda x: torch.nn.functional.embedding(nodes(x)[0][nodes(x)[0] != 1], MATRIX).mean(0),
    "a mask of two axes": lambda x: (y := x.reshape(2, 3, 4))[y[..., 0] > 0].sum(0),
}  # fmt: skip


CASES = Cases(SELECTIONS, MATRIX)


@pytest.mark.parametrize("name", SELECTIONS)
def test_operators_on_selected_elements_equal_pytorch(name: str):
    for found, expected in zip(CASES.outputs(name), CASES.expected(name), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "function",
    [lambda x: x[x > 0], lambda x: x.sum() / x[x > 0].shape[0], lambda x: x[x[:, 0] > 0].sort(0)[0].sum(0)],
    ids=["returned", "counted", "sorted"],
)
def test_results_that_depend_on_the_number_of_elements_are_refused(function):
    program = torch.export.export(Of(function), (MATRIX,))
    with pytest.raises(InputError, match="depends on the data"):
        read(program, ImportOptions(source="net"))
