"""``max`` of an axis sorts the axis."""

import sys

import torch
from building import operators
from torch_functions import imported


def still_needed() -> bool:
    names = operators(imported(lambda x: torch.max(x, 1).values, torch.linspace(-3, 3, 6).reshape(2, 3)))
    print(f"max is imported as {names}")
    return any("sort" in name or "topk" in name for name in names)


if __name__ == "__main__":
    sys.exit(still_needed())
