"""The legaliser of conv2d for Adreno drops ``out_dtype``."""

import sys

import tvm
from building import network
from tvm import relax
from tvm.relax.transform.legalize_ops import adreno


def blocked(data, weight):
    layouts = {"data_layout": "NCHW4c", "kernel_layout": "OIHW4o", "out_layout": "NCHW4c"}
    return relax.op.nn.conv2d(data, weight, padding=1, out_dtype="float16", **layouts)


def still_needed() -> bool:
    module = network(blocked, ((1, 2, 8, 8, 4), "float16"), ((2, 8, 3, 3, 4), "float16"))
    lowered = relax.transform.LegalizeOps({"relax.nn.conv2d": adreno.conv2d_NCHWc_OIHWo})(module)
    (kernel,) = [function for _, function in lowered.functions_items() if isinstance(function, tvm.tirx.PrimFunc)]
    dtype = str(kernel.params[-1].ty.dtype)
    print(f"out_dtype is float16, and the kernel gives {dtype}")
    return dtype != "float16"


if __name__ == "__main__":
    sys.exit(still_needed())
