"""``(1 + x) - 1`` is simplified to ``x`` for floating-point values."""

import sys

import tvm


def still_needed() -> bool:
    x, one = tvm.tirx.Var("x", "float32"), tvm.tirx.const(1.0, "float32")
    result = tvm.sym.Analyzer().simplify((x + one) - one)
    print(f"(x + 1) - 1 is simplified to {result}")
    return result.same_as(x)


if __name__ == "__main__":
    sys.exit(still_needed())
