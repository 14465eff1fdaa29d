"""``remainder`` subtracts a rounded multiple of the divisor, which leaves few digits of large quotients."""

import sys

import torch
from torch_functions import any_problem

CASES = {"remainder": (lambda x: torch.remainder(x, 0.3), torch.tensor([1e5, 54321.5, -7e6]))}


def still_needed() -> bool:
    return any_problem(CASES)


if __name__ == "__main__":
    sys.exit(still_needed())
