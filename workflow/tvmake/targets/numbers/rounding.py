"""Rounding to the nearest integer, in vectors.

TVM 0.27 does not know that ``nearbyint`` can be computed in vectors, and leaves loops with it to LLVM, which gets some of them wrong
(``targets.cpu.cyclic_places``). Remove when tests/targets/numbers/test_rounding.py::test_tvm_still_leaves_roundings_in_loops fails.
"""

from functools import cache

import tvm

from tvmake.targets.affected import is_affected

RELEASES = "<0.28"

ROUNDING, IS_VECTOR = "tirx.nearbyint", "TVectorizable"


@cache
def install() -> None:
    """Have kernels of this process round vectors."""
    if is_affected(RELEASES):
        tvm.ir.Op.get(ROUNDING).set_attr(IS_VECTOR, True)
