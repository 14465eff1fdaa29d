"""Every matmul is computed in float32."""

import sys

import torch
from torch_functions import imported


def still_needed() -> bool:
    dtype = imported(lambda x: x @ x.mT, torch.ones(3, 4, dtype=torch.float64))["main"].ret_ty.dtype
    print(f"a matmul of float64 gives {dtype}")
    return str(dtype) == "float32"


if __name__ == "__main__":
    sys.exit(still_needed())
