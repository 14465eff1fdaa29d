"""A conversion to bfloat16 and back inside of a kernel does not round."""

import sys

import numpy as np
from building import elementwise, run_kernel


def still_needed() -> bool:
    values = np.full(64, 1.001, "float32")
    kernel = elementwise(lambda x: x.astype("bfloat16").astype("float32"), 64, "float32")
    result = run_kernel(kernel, values, result=np.zeros(64, "float32"))
    print(f"1.001 is {result[0]} in bfloat16")
    return bool((result == values).all())


if __name__ == "__main__":
    sys.exit(still_needed())
