"""ConvertLayout fails at operators whose axes are counted from the end."""

import sys

import numpy as np
import tvm
from building import NHWC, network
from tvm import relax

op = relax.op
ENDS = {
    "squeeze": lambda x: op.squeeze(x, [-4]),
    "permute_dims": lambda x: op.permute_dims(x, [0, -1, 1, 2]),
    "stack": lambda x: op.stack([x, x], -1),
}


def still_needed() -> bool:
    weight = relax.const(np.ones((4, 3, 3, 3), "float32"))
    failing = []
    for name, end in ENDS.items():
        module = network(lambda x, end=end: end(op.nn.conv2d(x, weight)), ((1, 3, 8, 8), "float32"))
        try:
            relax.transform.ConvertLayout(NHWC)(relax.transform.Normalize()(module))
        except (tvm.error.InternalError, IndexError) as error:
            failing.append(name)
            print(f"{name}: {str(error).strip().splitlines()[-1]}")
    return bool(failing)


if __name__ == "__main__":
    sys.exit(still_needed())
