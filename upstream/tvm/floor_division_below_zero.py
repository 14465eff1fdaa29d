"""``iter_map_simplify`` divides wrongly if an index counts backwards."""

import sys

import tvm
from tvm.sym.iter_affine_map import iter_map_simplify


def still_needed() -> bool:
    index = tvm.tirx.Var("index", "int64")
    four = tvm.tirx.IntImm("int64", 4)
    backwards = tvm.tirx.IntImm("int64", 7) - index
    whole = tvm.tirx.floordiv(backwards, four) * four + tvm.tirx.floormod(backwards, four)
    (result,) = iter_map_simplify([whole], {index: tvm.ir.Range(0, 8)})
    print(f"{whole} is simplified to {result}")
    return not tvm.sym.Analyzer().can_prove_equal(result, backwards)


if __name__ == "__main__":
    sys.exit(still_needed())
