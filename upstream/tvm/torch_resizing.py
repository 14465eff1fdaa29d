"""Nearest neighbours, antialiasing and ``grid_sample`` differ from PyTorch's."""

import sys

import torch
import torch.nn.functional as F
from torch_functions import any_problem

IMAGE = torch.arange(2 * 3 * 7 * 9).reshape(2, 3, 7, 9).sin()
GRID = torch.linspace(-1, 1, 2 * 4 * 5 * 2).reshape(2, 4, 5, 2)
CASES = {
    "nearest": (lambda x: F.interpolate(x, size=(10, 4)), IMAGE),
    "antialias": (lambda x: F.interpolate(x, size=(3, 4), mode="bilinear", antialias=True), IMAGE),
    "scale factor": (lambda x: F.interpolate(x, scale_factor=1.3, mode="bilinear"), IMAGE),
    "grid_sample": (lambda x, grid: F.grid_sample(x, grid, align_corners=False), IMAGE, GRID),
}


def still_needed() -> bool:
    return any_problem(CASES)


if __name__ == "__main__":
    sys.exit(still_needed())
