"""``add`` and ``sub`` ignore ``alpha``."""

import sys

import torch
from torch_functions import any_problem

X = torch.linspace(-3, 3, 24)
CASES = {"add": (lambda x: torch.add(x, x * x, alpha=2.5), X), "sub": (lambda x: torch.sub(x, x * x, alpha=2.5), X)}


def still_needed() -> bool:
    return any_problem(CASES)


if __name__ == "__main__":
    sys.exit(still_needed())
