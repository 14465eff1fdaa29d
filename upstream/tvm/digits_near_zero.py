"""``expm1`` and ``log1p`` of PyTorch and ``Elu`` of ONNX are imported as plain formulas, which lose the digits near zero."""

import sys

import torch
from torch_functions import any_problem

X = torch.tensor([1e-6, -1e-6, 1e-4])
CASES = {"expm1": (torch.expm1, X), "log1p": (torch.log1p, X), "elu": (torch.nn.functional.elu, X)}


def still_needed() -> bool:
    return any_problem(CASES)


if __name__ == "__main__":
    sys.exit(still_needed())
