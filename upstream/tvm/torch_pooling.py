"""``avg_pool2d`` ignores ``divisor_override``."""

import sys

import torch
import torch.nn.functional as F
from torch_functions import any_problem

IMAGE = torch.arange(2 * 3 * 8 * 8).reshape(2, 3, 8, 8).sin()
CASES = {
    "divisor_override": (lambda x: F.avg_pool2d(x, 2, divisor_override=3), IMAGE),
}


def still_needed() -> bool:
    return any_problem(CASES)


if __name__ == "__main__":
    sys.exit(still_needed())
