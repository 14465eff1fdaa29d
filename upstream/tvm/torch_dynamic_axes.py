"""``empty``, ``var`` and circular padding fail if an axis is dynamic."""

import sys

import torch
from torch_functions import problem

N = torch.export.Dim("n", min=1, max=64)
X = torch.linspace(-3, 3, 15).reshape(5, 3)
CASES = {
    "empty": lambda x: torch.empty_like(x).fill_(2),
    "var": lambda x: x.var(0),
    "circular padding": lambda x: torch.nn.functional.pad(x[None].mT, (1, 1), mode="circular"),
}


def still_needed() -> bool:
    for name, function in CASES.items():
        text = problem(function, X, dynamic=({0: N},))
        print(f"{name}: {text or 'right'}")
        if text:
            return True
    return False


if __name__ == "__main__":
    sys.exit(still_needed())
