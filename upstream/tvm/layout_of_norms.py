"""ConvertLayout leaves the weights of a layer norm in the former layout, and breaks RMS norms."""

import sys

import numpy as np
import tvm
from building import NHWC, network, run_network
from tvm import relax

op = relax.op
F32 = "float32"


def layer_norm(data, weight, scale, shift):
    return op.nn.layer_norm(op.nn.conv2d(data, weight), scale, shift, axes=[-3, -2, -1])


def rms_norm(data, weight, scale):
    return op.nn.rms_norm(op.nn.conv2d(data, weight), scale, axes=[-1])


def is_wrong(module: tvm.IRModule) -> bool:
    rng = np.random.default_rng(0)
    shapes = [tuple(map(int, parameter.ty.shape)) for parameter in module["main"].params]
    values = [rng.standard_normal(shape).astype(F32) for shape in shapes]
    expected = run_network(module, *values)
    try:
        result = run_network(relax.transform.ConvertLayout(NHWC)(module), *values)
    except (tvm.error.InternalError, ValueError) as error:
        print(str(error).strip().splitlines()[-1])
        return True
    print(f"largest difference in the other layout: {np.abs(result - expected).max()}")
    return not np.allclose(result, expected, atol=1e-3)


def still_needed() -> bool:
    layer = network(layer_norm, ((1, 3, 5, 4), F32), ((6, 3, 1, 1), F32), ((6, 5, 4), F32), ((6, 5, 4), F32))
    rms = network(rms_norm, ((1, 3, 8, 8), F32), ((4, 3, 3, 3), F32), ((6,), F32))
    return any([is_wrong(layer), is_wrong(rms)])


if __name__ == "__main__":
    sys.exit(still_needed())
