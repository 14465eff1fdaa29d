"""Arithmetic and extrema of booleans fail in code generation."""

import sys

import torch
from torch_functions import any_problem

X, Y = torch.tensor([True, False, True, False]), torch.tensor([True, True, False, False])
CASES = {
    "mul": (torch.mul, X, Y),
    "maximum": (torch.maximum, X, Y),
    "gt": (torch.gt, X, Y),
    "cumsum": (lambda x, y: x.cumsum(0), X, Y),
    "amax": (lambda x, y: x.amax(0), X, Y),
}


def still_needed() -> bool:
    return any_problem(CASES)


if __name__ == "__main__":
    sys.exit(still_needed())
