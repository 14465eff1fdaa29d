"""Transposed convolutions of volumes are not imported, though TVM has them."""

import sys

import torch
from torch_functions import any_problem

CASES = {
    "conv_transpose3d": (torch.nn.functional.conv_transpose3d, torch.ones(1, 2, 3, 3, 3), torch.ones(2, 2, 2, 2, 2))
}


def still_needed() -> bool:
    return any_problem(CASES)


if __name__ == "__main__":
    sys.exit(still_needed())
