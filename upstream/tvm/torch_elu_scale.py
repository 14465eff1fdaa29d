"""``elu`` drops ``scale`` and ``input_scale``, so that SELU and CELU are wrong."""

import sys

import torch
from torch_functions import any_problem

X = torch.linspace(-3, 3, 24)
CASES = {"selu": (torch.selu, X)}


def still_needed() -> bool:
    return any_problem(CASES)


if __name__ == "__main__":
    sys.exit(still_needed())
