"""``cat`` neither converts operands of several types nor leaves out empty vectors."""

import sys

import torch
from torch_functions import any_problem

X = torch.ones(2, 3)
CASES = {
    "types": (lambda x: torch.cat([x, x.to(torch.int32)]), X),
    "an empty vector": (lambda x: torch.cat([x.new_zeros(0), x]), X),
}


def still_needed() -> bool:
    return any_problem(CASES)


if __name__ == "__main__":
    sys.exit(still_needed())
