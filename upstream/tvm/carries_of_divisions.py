"""Quotients and remainders of a sum keep terms that never carry."""

import sys

import tvm


def still_needed() -> bool:
    step, part, thread = (tvm.tirx.Var(name, "int64") for name in ("step", "part", "thread"))
    analyzer = tvm.sym.Analyzer()
    for variable, extent in ((step, 100), (part, 15), (thread, 4)):
        analyzer.bind(variable, tvm.ir.Range(0, extent))
    result = analyzer.simplify((step * 64 + part * 4 + thread) % 384 // 128)
    print(f"(64 * step + 4 * part + thread) % 384 // 128 is simplified to {result}")
    return "part" in str(result)


if __name__ == "__main__":
    sys.exit(still_needed())
