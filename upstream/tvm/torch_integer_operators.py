"""Operators of integers are imported as those of floating-point values, and fail."""

import sys

import torch
from torch_functions import any_problem

BYTES = torch.tensor([0, 1, 2, 3, 127, 128, 200, 255], dtype=torch.uint8)
INTS = torch.arange(-4, 4)
CASES = {
    "pow": (lambda x: x.pow(x), BYTES),
    "neg": (torch.neg, BYTES),
    "sign": (torch.sign, BYTES),
    "clamp with one bound": (lambda x: x.clamp(min=0), INTS),
    "rounded quotients": (lambda x: torch.div(x, 1.5, rounding_mode="floor"), INTS),
    "topk in any order": (lambda x: torch.topk(x.float(), 2, sorted=False).values.sort().values, INTS),
    "sort of bytes": (lambda x: x.sort().values, BYTES.flip(0)),
}


def still_needed() -> bool:
    return any_problem(CASES)


if __name__ == "__main__":
    sys.exit(still_needed())
