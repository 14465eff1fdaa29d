"""``index_put`` combines indices wrongly, and scattering adds up nothing."""

import sys

import torch
from torch_functions import any_problem

X = torch.zeros(3, 4)
INDEX = torch.tensor([[0, 2], [1, 1]])
CASES = {
    "index_put": (lambda x: x.clone().index_put((torch.tensor([0, 2]),), torch.ones(2, 4)), X),
    "scatter_add": (lambda x: x.scatter_add(1, INDEX, torch.ones(2, 2)), X),
}


def still_needed() -> bool:
    return any_problem(CASES)


if __name__ == "__main__":
    sys.exit(still_needed())
