"""``grid_sample`` of float16 is annotated as float16 and lowered to float32."""

import sys

from building import network
from tvm import relax

HALVES = ((1, 2, 4, 5), "float16"), ((1, 2, 3, 3), "float16")


def still_needed() -> bool:
    module = network(lambda x, grid: relax.op.image.grid_sample(x, grid, layout="NCHW"), *HALVES)
    dtype = str(relax.transform.LegalizeOps()(module)["main"].ret_ty.dtype)
    print(f"annotated as float16, lowered to {dtype}")
    return dtype == "float32"


if __name__ == "__main__":
    sys.exit(still_needed())
