"""The analyzer fails at a quotient of floating-point values whose divisor may be zero."""

import sys

import tvm


def still_needed() -> bool:
    index, height = (tvm.tirx.Var(name, "int64") for name in ("index", "height"))
    analyzer = tvm.sym.Analyzer()
    analyzer.bind(index, tvm.ir.Range(tvm.tirx.IntImm("int64", 0), height))
    quotient = tvm.tirx.Cast("float32", index) / tvm.tirx.Cast("float32", height)
    try:
        analyzer.bind(tvm.tirx.Var("ratio", "float32"), quotient)
    except ValueError as error:
        print(error)
        return True
    print("bound")
    return False


if __name__ == "__main__":
    sys.exit(still_needed())
