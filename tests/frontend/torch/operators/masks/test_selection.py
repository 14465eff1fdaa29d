"""Elements that a mask selects, whose number depends on the data: what is computed of them, by what PyTorch computes."""

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
    """The edges, as far as a program knows an input: they move with it."""
    return EDGES + (x[0, 0] > 100).long()


def added(places: Tensor, rows: Tensor) -> Tensor:
    """Rows summed at places."""
    return torch.zeros(6, *rows.shape[1:]).index_add(0, places, rows)


def normed(x: Tensor) -> Tensor:
    """A graph convolution's norm: loops left out, one added to each node."""
    edges = torch.cat([without_loops(nodes(x)), torch.arange(6).repeat(2, 1)], 1)
    degrees = torch.zeros(6).scatter_add(0, edges[1], torch.ones(edges.size(1)))
    weights = degrees[edges[0]].rsqrt() * degrees[edges[1]].rsqrt()
    return added(edges[1], x[edges[0]] * weights[:, None])


def attended(x: Tensor) -> Tensor:
    """Attention over each node's edges: a softmax by groups."""
    start, end = without_loops(nodes(x))
    scores = (x[start] * x[end]).view(-1, 2, 2).sum(-1)
    place = end[:, None].expand(-1, 2)
    largest = torch.full((6, 2), -1e9).scatter_reduce(0, place, scores, "amax")
    powers = (scores - largest[end]).exp()
    sums = torch.zeros(6, 2).scatter_add(0, place, powers)
    return added(end, x[start].view(-1, 2, 2) * (powers / (sums[end] + 1e-9))[..., None])


def lessened(x: Tensor) -> Tensor:
    """Weights of selected edges, changed where another mask holds."""
    edges = torch.cat([without_loops(nodes(x)), torch.arange(6).repeat(2, 1)], 1)
    weights = x[edges[0], 0] * 1
    weights[edges[0] == edges[1]] -= 1
    return added(edges[0], weights)


def routed(x: Tensor) -> Tensor:
    """A mixture of experts that looks for each expert's rows."""
    weights, chosen = x.softmax(1).topk(2)
    hits = F.one_hot(chosen, 4).permute(2, 1, 0)
    out = torch.zeros_like(x)
    for expert in range(4):
        place, row = torch.where(hits[expert])
        out.index_add_(0, row, torch.tanh(x[row] * (expert + 1)) * weights[row, place, None])
    return out


def put_at_places(x: Tensor) -> Tensor:
    """Elements at places counted from the end."""
    row, column = torch.where(x > 0)
    out = torch.zeros(6, 4)
    out[row - 6, column] = x[row, column] * 2
    return out


def unpadded(x: Tensor) -> Tensor:
    """Rows without padding through a layer, and back to where they were."""
    rows = torch.nonzero((x[:, 0] > -0.5).flatten()).flatten()
    out = torch.zeros(6, 3)
    out[rows] = F.layer_norm(F.linear(x[rows], WEIGHT), (3,))
    return out


def with_padding(x: Tensor) -> Tensor:
    """Places of padding lie outside, and are not selected."""
    edges = torch.where(nodes(x) == 5, -7, nodes(x))
    edges = edges[:, (edges >= 0).all(0)]
    return added(edges[0], x[edges[1]])


def filled(x: Tensor) -> tuple[Tensor, ...]:
    """One value for each selected element: rows, along the second axis, of a mask with two axes that depends on the data."""
    rows, columns, elements = x.clone(), x.clone(), x.reshape(2, 3, 4).clone()
    rows[torch.tensor([True, False, False, True, False, False])] = x[:2] * 3
    columns[:, torch.tensor([False, True, True, False])] = torch.tensor([5.0, 6.0])
    elements[torch.zeros(2, 3) < (x[0, 0] > -100)] = x * 2
    return rows, columns, elements


SELECTIONS: dict[str, Callable[[Tensor], Any]] = {
    "values behind a mask": filled,
    "a graph convolution": normed,
    "attention over edges": attended,
    "weights of some selected edges": lessened,
    "a selection of a selection": lambda x: added(*(e := without_loops(nodes(x)))[:, e[0] != 2][0:1], x[e[:, e[0] != 2][1]]),
    "experts": routed,
    "places from the end": put_at_places,
    "places added to": lambda x: added((n := torch.nonzero(x > 0))[:, 0], x[n[:, 0]] * n[:, 1:]),
    "rows without padding": unpadded,
    "places outside": with_padding,
    "a maximum by places": lambda x: torch.full((6, 4), -9.0).scatter_reduce(
        0, (e := without_loops(nodes(x)))[0][:, None].expand(-1, 4), x[e[1]], "amax"
    ),
    "a mean by places": lambda x: torch.zeros(6, 4).scatter_reduce(
        0, (e := without_loops(nodes(x)))[0][:, None].expand(-1, 4), x[e[1]], "mean", include_self=False
    ),
    "written at places": lambda x: torch.zeros(6, 4).scatter(0, torch.where(x[:, 0] > 0)[0][:, None].expand(-1, 4), 3.0),
    "sums": lambda x: (x[x > 0].sum(), x[x[:, 0] > -0.5].sum(0), torch.masked_select(x, x[:, :1] > 0).sum()),
    "means": lambda x: (x[x > 0].mean(), x[x[:, 0] > -0.5].mean(0), x[:, x[0] < 0].mean()),
    "extremes": lambda x: (x[x > 0].max(), x[x < 0].amin(), x[x[:, 0] > -0.5].max(0)[0], (x * 9).int()[x > 0].max()),
    "products": lambda x: (x[x[:, 0] > 0].prod(0), (y := x[x[:, 0] > -0.5]).t() @ y, (y @ x.t()).sum(0)),
    "truth": lambda x: ((x[x > 0] > 0.5).any(), (x[x > 0] > 0.5).all()),
    "along the selected axis": lambda x: (
        ((y := x[x[:, 0] > -0.5]).softmax(0) * y).sum(0), y.cumsum(0).sum(0), (y.log_softmax(0)).amin(0)
    ),
    "rows of tokens": lambda x: torch.nn.functional.embedding(nodes(x)[0][nodes(x)[0] != 1], MATRIX).mean(0),
    "a mask of two axes": lambda x: (y := x.reshape(2, 3, 4))[y[..., 0] > 0].sum(0),
}  # fmt: skip


CASES = Cases(SELECTIONS, MATRIX)


@pytest.mark.parametrize("name", SELECTIONS)
def test_what_is_computed_of_selected_elements_is_what_torch_computes(name: str):
    for found, expected in zip(CASES.outputs(name), CASES.expected(name), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "function",
    [lambda x: x[x > 0], lambda x: x.sum() / x[x > 0].shape[0], lambda x: x[x[:, 0] > 0].sort(0)[0].sum(0)],
    ids=["returned", "counted", "sorted"],
)
def test_what_depends_on_how_many_are_selected_is_refused(function):
    program = torch.export.export(Of(function), (MATRIX,))
    with pytest.raises(InputError, match="depends on the data"):
        read(program, ImportOptions(source="net"))
