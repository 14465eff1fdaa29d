"""Functions that OpenCL knows by one name are called by C's names for float32 (``atan2f``)."""

import sys

import tvm


def still_needed() -> bool:
    rule = tvm.ir.Op.get("tirx.atan2").get_attr("default.FLowerIntrinsic")
    value = tvm.tirx.const(0.5, "float32")
    lowered = str(rule(tvm.tirx.atan2(value, value)))
    print(f"atan2 becomes {lowered}; OpenCL has no rule of its own")
    return "atan2f" in lowered and tvm.ir.Op.get("tirx.atan2").get_attr("opencl.FLowerIntrinsic") is None


if __name__ == "__main__":
    sys.exit(still_needed())
