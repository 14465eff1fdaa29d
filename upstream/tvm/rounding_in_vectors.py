"""``nearbyint`` is not marked as vectorisable, so that loops with it are left to LLVM."""

import sys

import tvm


def still_needed() -> bool:
    is_vector = tvm.ir.Op.get("tirx.nearbyint").get_attr("TVectorizable")
    print(f"TVectorizable of tirx.nearbyint: {is_vector}")
    return not is_vector


if __name__ == "__main__":
    sys.exit(still_needed())
