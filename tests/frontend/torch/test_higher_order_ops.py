"""Higher-order operators, against PyTorch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils import _pytree as pytree

from tests.frontend.torch.running import Of, outputs
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.importer import read

HEADS, WORDS, WIDTH = 4, 6, 8


def assert_equals_pytorch(network: nn.Module, x: Tensor) -> None:
    with torch.no_grad():
        expected = pytree.tree_leaves(network(x))
    imported = read(torch.export.export(network, (x,)), ImportOptions(source="net"))
    for output, reference in zip(outputs(imported, x.numpy()), expected, strict=True):
        np.testing.assert_allclose(output, reference.numpy(), rtol=1e-4, atol=1e-5)


class Attention(nn.Module):
    def __init__(self, shared: int = 1, **options: Any):
        super().__init__()
        self.slopes = nn.Parameter(torch.rand(HEADS))
        self.shared, self.options = shared, options

    def forward(self, x: Tensor) -> Any:
        keys = x[:, :: self.shared]
        by_distance = lambda score, sample, head, query, key: score + self.slopes[head] * (key - query)  # noqa: E731
        return flex_attention(x, keys, keys + 1, by_distance, enable_gqa=self.shared > 1, **self.options)


def _mask(is_seen: Callable[..., Tensor]) -> Any:
    return create_block_mask(is_seen, None, None, WORDS, WORDS, device="cpu")


@pytest.mark.parametrize(
    "network",
    [
        Attention(),
        Attention(shared=2),
        Attention(block_mask=_mask(lambda sample, head, query, key: query >= key)),
        Attention(return_lse=True),
    ],
    ids=["scores by position", "shared keys", "a mask", "log-sum-exp"],
)
def test_attention_with_a_score_function(network):
    assert_equals_pytorch(network, torch.rand(2, HEADS, WORDS, WIDTH))


def test_a_query_without_keys_gets_zeros():
    assert_equals_pytorch(
        Attention(block_mask=_mask(lambda _, head, query, key: query > key)), torch.rand(1, HEADS, WORDS, WIDTH)
    )


class Recurrence(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(3, 5)

    def forward(self, x: Tensor) -> Any:
        def step(state: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
            found = self.cell(row, state)
            return found, found * 2

        return torch._higher_order_ops.scan(step, torch.zeros(2, 5), x)


def test_a_scan_equals_pytorch():
    assert_equals_pytorch(Recurrence(), torch.rand(4, 2, 3))


def test_a_map_equals_pytorch():
    assert_equals_pytorch(
        Of(lambda x: torch._higher_order_ops.map(lambda row: (row.cumsum(0), row.sum()), x)), torch.rand(3, 4)
    )


def test_a_loop_of_unknown_length_is_refused_with_an_alternative():
    def grown(x):
        return while_loop(lambda steps, y: y.sum() < 9, lambda steps, y: (steps + 1, y * 2), (torch.tensor(0), x))[1]

    program = torch.export.export(Of(grown), (torch.ones(3),))
    with pytest.raises(InputError, match="while_loop") as caught:
        read(program, ImportOptions(source="net"))
    assert "a Python loop of a fixed number of steps" in caught.value.remedy
