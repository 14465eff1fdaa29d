"""Integer arithmetic with wrapping overflows, against PyTorch."""

import pytest
import torch

from tests.frontend.torch.running import as_built

WIDE = torch.tensor([-5, -2, -1, 0, 1, 2, 3, 7])
SMALL = torch.tensor([0, 1, 2, 3, 127, 128, 200, 255], dtype=torch.uint8)
EXPONENTS = torch.tensor([0, 1, 2, 3, 5, 63, 64, 17])


@pytest.mark.parametrize(
    ("function", "values"),
    [
        (lambda x: x.pow(EXPONENTS), WIDE),
        (lambda x: 3**x, EXPONENTS),
        (lambda x: x.pow(EXPONENTS.to(torch.uint8)), SMALL),
        (lambda x: x.to(torch.int8).pow(3), WIDE),
        (torch.neg, SMALL),
        (torch.sign, SMALL),
        (lambda x: x.sort(descending=True)[0], SMALL),
        (lambda x: x.to(torch.int16).sort()[1], WIDE.flip(0)),
    ],
    ids=["powers", "powers of a number", "unsigned powers", "cubes", "negated", "signs", "sorted", "indices"],
)
def test_integer_operators_equal_pytorch(function, values):
    assert as_built(function, values).tolist() == function(values).tolist()
