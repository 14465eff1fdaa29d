"""A number has the type of the tensor beside it: integers plus 1.5 are integers plus 1."""

import sys

import torch
from torch_functions import any_problem

CASES = {"add": (lambda x: x + 1.5, torch.arange(4))}


def still_needed() -> bool:
    return any_problem(CASES)


if __name__ == "__main__":
    sys.exit(still_needed())
