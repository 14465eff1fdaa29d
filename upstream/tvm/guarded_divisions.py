"""A guard of a divisor is removed inside of a choice by it, and the division runs all the same."""

import sys

import tvm


def still_needed() -> bool:
    x, y = (tvm.tirx.Var(name, "int32") for name in "xy")
    zero, one = (tvm.tirx.const(value, "int32") for value in (0, 1))
    guarded = tvm.tirx.Select(y == zero, x, tvm.tirx.truncdiv(x, tvm.tirx.Select(y == zero, one, y)))
    simplified = tvm.sym.Analyzer().simplify(guarded)
    print(f"{guarded} is simplified to {simplified}")
    return str(simplified).count("T.Select") < 2


if __name__ == "__main__":
    sys.exit(still_needed())
