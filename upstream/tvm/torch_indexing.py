"""Indexing with several tensors takes every combination of them instead of pairs."""

import sys

import torch
from torch_functions import any_problem

IMAGE = torch.arange(2 * 3 * 7 * 9).reshape(2, 3, 7, 9).sin()
ROWS, COLUMNS = torch.tensor([0, 3, 5, 6]), torch.tensor([8, 1, 2, 4])
CASES = {
    "pairs": (lambda x: x[:, :, ROWS, COLUMNS], IMAGE),
    "several axes": (lambda x: x[:, :, ROWS.reshape(2, 2, 1), COLUMNS.reshape(1, 2, 2)], IMAGE),
    "sliding windows": (lambda x: x.unfold(2, 3, 2), IMAGE),
}


def still_needed() -> bool:
    return any_problem(CASES)


if __name__ == "__main__":
    sys.exit(still_needed())
