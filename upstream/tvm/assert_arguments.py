"""``tirx.AssertStmt`` passes its arguments in another order than its constructor takes them."""

import sys

import tvm
from tvm import tirx


def still_needed() -> bool:
    kind, parts = tvm.ir.StringImm("ValueError"), [tvm.ir.StringImm("too large")]
    try:
        tirx.AssertStmt(kind, tirx.const(True, "bool"), parts)
    except TypeError as error:
        print(str(error).strip().splitlines()[-1])
        return True
    return False


if __name__ == "__main__":
    sys.exit(still_needed())
