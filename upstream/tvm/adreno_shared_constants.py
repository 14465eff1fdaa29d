"""AnnotateCustomMemoryScope writes into the constants of the module that it is given."""

import sys

import numpy as np
import tvm
from building import network
from textures import TARGET, conv
from tvm import relax

op = relax.op


def still_needed() -> bool:
    constant = relax.const(np.ones((8, 4), "float32"))

    def net(x, w):
        return op.matmul(op.reshape(op.nn.adaptive_avg_pool2d(conv(x, w), (1, 1)), (1, 8)), constant)

    module = network(net, ((1, 8, 8, 8), "float32"), ((8, 8, 3, 3), "float32"))
    with TARGET:
        tvm.transform.Sequential(relax.backend.adreno.legalize_passes(TARGET))(module)
    print(f"the device of the caller's constant afterwards: {constant.ty.vdevice}")
    return constant.ty.vdevice is not None


if __name__ == "__main__":
    sys.exit(still_needed())
