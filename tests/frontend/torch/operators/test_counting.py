"""Histograms, places, segments, divisors, against PyTorch."""

import pytest
import torch

from tests.frontend.torch.running import as_built, assert_as_pytorch_has_it

VALUES = torch.tensor([[0.5, -1.5, 0.0], [2.0, 0.0, -0.25], [1.0, 3.0, -3.0], [0.75, 0.0, 9.0]])
LENGTHS = torch.tensor([2, 0, 2])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (torch.histc(x, 4, -2, 2), torch.histc(x, 4), torch.histc(x * 0, 4)),
        lambda x: tuple(torch.histogram(x, 3, range=(-1.0, 2.0), weight=x.abs(), density=True)),
        lambda x: (torch.nonzero_static(x, size=10), torch.nonzero_static(x > 0, size=3, fill_value=7)),
        lambda x: x.clone().put_(torch.tensor([1, -3]), torch.tensor([9.0, 10.0]), accumulate=True),
    ],
    ids=["histograms", "histograms of weights", "places", "puts"],
)
def test_it_is_as_pytorch_has_it(function):
    assert_as_pytorch_has_it(function, VALUES)


@pytest.mark.parametrize("reduction", ["sum", "mean", "max", "min", "prod"])
def test_an_empty_segment_is_the_initial_value(reduction):
    def segments(x):
        return torch.segment_reduce(x, reduction, lengths=LENGTHS, axis=0, initial=0.5)

    assert_as_pytorch_has_it(segments, VALUES)


def test_divisors_and_multiples_are_those_of_whole_numbers():
    numbers = torch.tensor([0, 12, -18, 7, 100], dtype=torch.int8)
    assert_as_pytorch_has_it(
        lambda x: (torch.gcd(x, torch.full_like(x, 30)), torch.lcm(x, torch.full_like(x, 4))), numbers
    )


def test_no_step_of_a_common_divisor_divides_by_zero():
    numbers = torch.randint(0, 30000, (8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.int16)
    found = as_built(lambda x: torch.gcd(x, x[0]), numbers)
    assert found.tolist() == torch.gcd(numbers, numbers[0]).tolist()
