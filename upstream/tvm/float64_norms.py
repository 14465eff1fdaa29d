"""Layer norms of float64 cannot be lowered."""

import sys

import tvm
from building import network
from tvm import relax

F64 = "float64"


def still_needed() -> bool:
    module = network(
        lambda x, scale, shift: relax.op.nn.layer_norm(x, scale, shift, axes=[-1]),
        ((2, 8), F64),
        ((8,), F64),
        ((8,), F64),
    )
    try:
        relax.transform.LegalizeOps()(module)
    except tvm.error.InternalError as error:
        print(str(error).strip().splitlines()[-1])
        return "only support float32 and float16" in str(error)
    print("lowered")
    return False


if __name__ == "__main__":
    sys.exit(still_needed())
