"""The analyzer replaces a bound variable by its value: code generation repeats it at each use."""

import sys

import tvm


def still_needed() -> bool:
    data, value = tvm.tirx.Var("data", "float32"), tvm.tirx.Var("value", "float32")
    analyzer = tvm.sym.Analyzer()
    analyzer.bind(value, tvm.tirx.exp(data))
    simplified = analyzer.simplify(value * value + value)
    print(f"value * value + value is simplified to {simplified}")
    return str(simplified).count("exp") > 1


if __name__ == "__main__":
    sys.exit(still_needed())
